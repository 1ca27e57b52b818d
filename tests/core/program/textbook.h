#pragma once
#include <algorithm>
#include <bitset>
#include <cstdint>
#include <random>
#include <span>
#include <vector>

#include "core/program/accesses.h"
#include "core/program/happens_before.h"
#include "tests/core/program/program_builder.h"

namespace trainyard {

// The definitions, word for word and quadratic.
class Textbook {
 public:
  explicit Textbook(const Program& program) : p_(program), ended_(program.code.size()) {
    for (std::size_t i = 0; i < p_.code.size();) {
      const std::size_t size = group_at(p_.code, i).size();
      std::bitset<512> before;
      for (std::size_t m = i; m < i + size; ++m) {
        for (std::size_t q = 0; q < i; ++q)
          if (p_.code[q].stream == p_.code[m].stream || p_.code[q].stream == Stream::host ||
              p_.code[m].waits[0] == q || p_.code[m].waits[1] == q)
            before |= ended_[q] | std::bitset<512>().set(q) | mates(q);
      }
      for (std::size_t m = i; m < i + size; ++m) ended_[m] = before;
      i += size;
    }
  }
  bool ordered(std::size_t earlier, std::size_t later) const { return ended_[later][earlier]; }
  bool conflict(std::size_t a, std::size_t b) const {
    for (const Operand x : operands(a))
      for (const Operand y : operands(b))
        if ((x.writes() || y.writes()) && overlap(x.buffer, y.buffer)) return true;
    return false;
  }

  bool all_conflicts_ordered() const {
    for (std::size_t j = 0; j < p_.code.size(); ++j)
      for (std::size_t i = 0; i < j; ++i)
        if (conflict(i, j) && !ordered(i, j)) return false;
    return true;
  }
  // Pairs of buffers that share memory; -1 if the uses of one may overlap those of the other.
  int shared_memory() const {
    std::vector<std::vector<std::size_t>> uses(p_.buffers.size());
    for (std::size_t i = 0; i < p_.code.size(); ++i)
      for (const Operand o : operands(i)) uses[root_of(p_, o.buffer)].push_back(i);
    const auto all_before = [&](std::size_t a, std::size_t b) {
      for (const std::size_t i : uses[a])
        for (const std::size_t j : uses[b])
          if (!ordered(i, j)) return false;
      return true;
    };
    int pairs = 0;
    for (std::uint32_t a = 0; a < uses.size(); ++a) {
      for (std::uint32_t b = 0; b < a; ++b) {
        if (uses[a].empty() || uses[b].empty() || !bytes_in_common(a, b)) continue;
        if (!all_before(a, b) && !all_before(b, a)) return -1;
        ++pairs;
      }
    }
    return pairs;
  }

 private:
  bool bytes_in_common(std::uint32_t a, std::uint32_t b) const {
    const Bytes x = p_.buffers[a].offset, y = p_.buffers[b].offset;
    return x < y + p_.buffer_size(b) && y < x + p_.buffer_size(a);
  }
  std::bitset<512> mates(std::size_t q) const {
    std::bitset<512> result;
    std::size_t first = q;
    while (first > 0 && (p_.code[first - 1].flags & kGroupedWithNext) != 0) --first;
    for (std::size_t m = 0; m < group_at(p_.code, first).size(); ++m) result.set(first + m);
    return result;
  }
  std::span<const Operand> operands(std::size_t i) const {
    return {p_.operands.data() + p_.code[i].first_operand, p_.code[i].operands};
  }
  bool overlap(std::uint32_t a, std::uint32_t b) const {
    const BufferSpec &x = p_.buffers[a], &y = p_.buffers[b];
    if (a == b || x.parent == b || y.parent == a) return true;
    return x.parent != kNone && x.parent == y.parent &&
           (x.partition != y.partition || x.part == y.part);
  }

  const Program& p_;
  std::vector<std::bitset<512>> ended_;
};

// Up to 80 instructions on random streams. Persistent buffers are used throughout, transient ones
// each for a short stretch and written first.
inline Program random_program(std::mt19937& random, bool persistent = true) {
  const auto below = [&](std::uint32_t n) { return static_cast<std::uint32_t>(random() % n); };
  ProgramBuilder b;
  const std::uint32_t roots = persistent ? 2 + below(6) : 24;
  for (std::uint32_t i = 0; i < roots; ++i) b.buffer("b", 256, persistent);
  for (std::uint32_t i = below(8); i > 0; --i)
    b.view(below(roots), static_cast<int>(below(3)), 4, static_cast<std::uint16_t>(below(2)));
  const auto buffers = static_cast<std::uint32_t>(b.program.buffers.size());
  std::vector<bool> written(buffers);
  const std::uint32_t streams = 2 + below(kStreams - 1), length = 20 + below(60);
  for (std::uint32_t i = 0; i < length; ++i) {
    Instr instr;
    instr.op = Op::all_reduce;
    instr.stream = static_cast<Stream>(below(streams));
    if (instr.stream == Stream::host && below(4) != 0) instr.stream = Stream::compute;
    const auto any = [&] {
      const std::uint32_t buffer = persistent || below(8) == 0
                                       ? below(buffers)
                                       : std::min(roots - 1, i * roots / length + below(3));
      const std::uint32_t parent = b.program.buffers[buffer].parent;
      const bool first = !persistent && !written[buffer] && !(parent != kNone && written[parent]);
      written[buffer] = true;
      return BufferUse{buffer, first ? Access::write : static_cast<Access>(1 + below(3))};
    };
    b.add(instr, {any(), any()});
  }
  return b.program;
}

}  // namespace trainyard
