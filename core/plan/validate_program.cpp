#include "core/plan/validate_program.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <tuple>

#include "core/program/accesses.h"
#include "core/program/text.h"

namespace trainyard {
namespace {

bool is_transfer(const Instr& instr) { return instr.op == Op::send || instr.op == Op::recv; }

class StructureCheck {
 public:
  StructureCheck(const Program& program, Violations& violations)
      : program_(program), violations_(violations) {}

  void run() {
    for (std::uint32_t b = 0; b < program_.buffers.size(); ++b) check_buffer(b);
    if (violations_.empty()) check_partitions();
    if (!violations_.empty()) return;  // instructions are printed with their buffers
    for (std::uint32_t i = 0; i < program_.code.size(); ++i) check_instr(i);
  }

 private:
  template <class... Args>
  void add(std::uint32_t instr, fmt::format_string<Args...> format, Args&&... args) {
    violations_.push_back(where(program_, instr) + ": " +
                          fmt::format(format, std::forward<Args>(args)...));
  }

  void check_buffer(std::uint32_t b) {
    const BufferSpec& spec = program_.buffers[b];
    const auto add = [&](std::string_view what) {
      violations_.push_back(fmt::format("stage {}, buffer {}: {}", program_.stage, b, what));
    };
    if (spec.type >= program_.buffer_types.size()) return add("unknown type");
    if (spec.parent == kNone) return;
    if (spec.parent >= b || program_.buffers[spec.parent].parent != kNone)
      return add("a view comes after its parent, which is no view");
    if (program_.buffers[spec.parent].type >= program_.buffer_types.size()) return;  // told above
    const BufferType& type = program_.buffer_types[spec.type];
    const std::int64_t stride = spec.row_stride != 0 ? spec.row_stride : type.local[1];
    const std::int64_t extent = (type.local[0] - 1) * stride + type.local[1];
    if (spec.view_offset.value < 0 || spec.view_offset.value + extent * size_of(type.dtype) >
                                          program_.buffer_size(spec.parent).value)
      add("the view reaches beyond its parent");
  }

  // Columns, or elements of a view without gaps, counted from the parent's start.
  struct Extent {
    std::int64_t first, end;
  };
  Extent extent(const BufferSpec& view) const {
    const BufferType& type = program_.buffer_types[view.type];
    const std::int64_t start = view.view_offset.value / size_of(type.dtype);
    if (view.row_stride == 0 || view.row_stride == type.local[1])
      return {start, start + type.local[0] * type.local[1]};
    const std::int64_t column = start % view.row_stride;
    return {column, column + type.local[1]};
  }

  // Views that count as disjoint are: what orders accesses relies on it.
  void check_partitions() {
    std::vector<std::uint32_t> latest(program_.buffers.size(), kNone), earlier(latest);
    for (std::uint32_t b = 0; b < program_.buffers.size(); ++b) {
      const BufferSpec& view = program_.buffers[b];
      if (view.parent == kNone) continue;
      const Extent own = extent(view);
      for (std::uint32_t v = latest[view.parent]; v != kNone; v = earlier[v]) {
        const BufferSpec& other = program_.buffers[v];
        if (other.partition != view.partition || other.part == view.part) continue;
        const auto [first, end] = extent(other);
        if (own.first < end && first < own.end)
          violations_.push_back(
              fmt::format("stage {}, buffer {}: {} overlaps {}, another part of one partition",
                          program_.stage, b, buffer_text(program_, b), buffer_text(program_, v)));
      }
      earlier[b] = latest[view.parent];
      latest[view.parent] = b;
    }
  }

  void check_instr(std::uint32_t i) {
    const Instr& instr = program_.code[i];
    if (instr.pass != kNone && instr.pass >= program_.passes.size()) add(i, "no such pass");
    if (std::size_t{instr.first_operand} + instr.operands > program_.operands.size())
      return add(i, "operands beyond the list");
    for (const Operand operand : operands_of(program_, instr))
      if (operand.buffer >= program_.buffers.size() || operand.access == 0)
        return add(i, "unknown buffer {} or no access", std::uint32_t{operand.buffer});
    if (instr.op == Op::kernel && instr.what >= program_.kernels.size()) add(i, "no such kernel");
    for (const std::uint32_t wait : instr.waits)
      if (wait != kNone) check_wait(i, wait);
    if (is_transfer(instr)) check_transfer(i);
    if ((instr.flags & kGroupedWithNext) != 0 &&
        (i + 1 == program_.code.size() || !is_transfer(instr) ||
         !is_transfer(program_.code[i + 1])))
      add(i, "only transfers are grouped");
  }

  void check_wait(std::uint32_t i, std::uint32_t wait) {
    if (wait >= i)
      add(i, "waits for {}, which does not come earlier", wait);
    else if (program_.code[wait].stream == program_.code[i].stream)
      add(i, "waits for {} of its own stream", wait);
    else if (group_at(program_.code, wait).size() > i - wait)
      add(i, "waits for {} of its own group", wait);
  }

  void check_transfer(std::uint32_t i) {
    const Instr& instr = program_.code[i];
    if (instr.group != Group::pipeline) add(i, "transfers run along the pipeline");
    if (instr.operands != 1) return add(i, "a transfer has one buffer");
    const Operand operand = operands_of(program_, instr)[0];
    if (instr.bytes > program_.buffer_size(operand.buffer))
      add(i, "{} bytes do not fit into {}", instr.bytes.value,
          buffer_text(program_, operand.buffer));
    if (operand.writes() != (instr.op == Op::recv)) add(i, "sends read and receives write");
  }

  const Program& program_;
  Violations& violations_;
};

struct PassUse {
  std::uint32_t first = kNone, last = kNone;
};

// The compute instructions of each pass.
std::vector<PassUse> pass_uses(const Program& program) {
  std::vector<PassUse> uses(program.passes.size());
  for (std::uint32_t i = 0; i < program.code.size(); ++i) {
    const Instr& instr = program.code[i];
    if (instr.stream != Stream::compute || instr.pass == kNone) continue;
    if (uses[instr.pass].first == kNone) uses[instr.pass].first = i;
    uses[instr.pass].last = i;
  }
  return uses;
}

}  // namespace

std::string where(const Program& program, std::uint32_t instr) {
  const Instr& at = program.code[instr];
  const std::string pass = at.pass < program.passes.size()
                               ? fmt::format(", {}", pass_text(program.passes[at.pass]))
                               : "";
  return fmt::format("stage {}, instruction {} ({}{})", program.stage, instr,
                     what_text(program, at), pass);
}

void check_structure(const Program& program, Violations& violations) {
  Violations found;
  StructureCheck(program, found).run();
  violations.insert(violations.end(), found.begin(), found.end());
}

void check_passes(const Program& program, Violations& violations) {
  constexpr int kKinds = 3;  // forward, backward, weight_grad: in the order they must run
  using Passes = std::array<std::uint32_t, kKinds>;
  std::map<std::pair<std::uint16_t, std::int32_t>, Passes> by_work;
  const std::vector<PassUse> uses = pass_uses(program);
  bool any_weight_grad = false;
  for (std::uint32_t p = 0; p < program.passes.size(); ++p) {
    const Pass& pass = program.passes[p];
    const int kind = static_cast<int>(pass.kind);
    if (kind >= kKinds) continue;
    Passes& passes =
        by_work.try_emplace({pass.chunk, pass.micro_batch}, Passes{kNone, kNone, kNone})
            .first->second;
    if (passes[kind] != kNone)
      violations.push_back(
          fmt::format("stage {}: {} is there twice", program.stage, pass_text(pass)));
    passes[kind] = p;
    if (uses[p].first == kNone)
      violations.push_back(
          fmt::format("stage {}: {} computes nothing", program.stage, pass_text(pass)));
    any_weight_grad |= pass.kind == PassKind::weight_grad;
  }
  for (const auto& [work, passes] : by_work) {
    const int kinds = !program.trains ? 1 : any_weight_grad ? kKinds : kKinds - 1;
    for (int kind = 0; kind < kinds; ++kind) {
      if (passes[kind] == kNone) {
        const Pass missing{static_cast<PassKind>(kind), work.first, work.second};
        violations.push_back(
            fmt::format("stage {}: {} is missing", program.stage, pass_text(missing)));
      } else if (kind > 0 && passes[kind - 1] != kNone &&
                 uses[passes[kind]].first <= uses[passes[kind - 1]].last) {
        violations.push_back(where(program, uses[passes[kind]].first) + " runs before " +
                             pass_text(program.passes[passes[kind - 1]]) + " has ended");
      }
    }
  }
}

void check_accesses(const Program& program, const HappensBefore& order, Violations& violations) {
  AccessTracker accesses(program);
  for (std::uint32_t i = 0; i < program.code.size(); ++i) {
    const Instr& instr = program.code[i];
    const Known known = order.known(i);
    for (const Operand operand : operands_of(program, instr)) {
      accesses.conflicts(operand, [&](Stream stream, std::int32_t count) {
        if (count <= known[stream]) return;
        const std::string other = where(program, static_cast<std::uint32_t>(count - 1));
        violations.push_back(fmt::format("{}: nothing orders it after {}, which uses {} too",
                                         where(program, i), other,
                                         buffer_text(program, operand.buffer)));
      });
      if (operand.reads() && accesses.fresh(operand.buffer) && !accesses.written(operand.buffer))
        violations.push_back(fmt::format("{}: reads {} before it is written", where(program, i),
                                         buffer_text(program, operand.buffer)));
    }
    for (const Operand operand : operands_of(program, instr))
      accesses.record(operand, instr.stream, static_cast<std::int32_t>(i) + 1);
  }
}

}  // namespace trainyard
