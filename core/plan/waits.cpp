#include "core/plan/waits.h"

#include <algorithm>
#include <array>
#include <functional>
#include <span>

#include "core/error.h"
#include "core/program/accesses.h"
#include "core/program/progress.h"

namespace trainyard {
namespace {

// When the memory of transient buffers may be used again. The stream that writes a buffer first
// takes its memory; before that stream takes more, it waits for the last uses of its buffers by
// other streams, but only for those two compute passes back, which ended long ago as a rule.
class ReleaseRule {
 public:
  explicit ReleaseRule(const Program& program) : program_(program), lives_(program.buffers.size()) {
    for (std::uint32_t b = 0; b < lives_.size(); ++b) {
      const BufferSpec& spec = program.buffers[b];
      lives_[b].root = spec.parent == kNone ? b : spec.parent;
      lives_[b].transient = !program.buffer_types[program.buffers[lives_[b].root].type].persistent;
    }
    for (std::uint32_t i = 0; i < program.code.size(); ++i)
      for (const Operand operand : operands(program.code[i]))
        lives_[lives_[operand.buffer].root].last_use = i;
  }

  // Called for each instruction in list order, before the two below.
  void enter(const Instr& instr) {
    if (instr.stream != Stream::compute || instr.pass == kNone || instr.pass == pass_) return;
    pass_ = instr.pass;
    for (Release& release : releases_) {
      release.due.merge(release.one_pass_ago);
      release.one_pass_ago = release.this_pass;
      release.this_pass = {};
    }
  }

  // Adds what `instr` must wait for because it takes memory.
  void take(const Instr& instr, Clock& conflicts) {
    for (const Operand operand : operands(instr)) {
      if (!operand.writes()) continue;
      Life& life = lives_[lives_[operand.buffer].root];
      if (!life.transient || life.taken) continue;
      life.taken = true;
      life.taker = instr.stream;
      conflicts.merge(of(instr.stream).due);
    }
  }

  // Notes the last uses that `instr`, number `index` of the list as given, makes.
  void release(const Instr& instr, std::uint32_t index, const AccessTracker& accesses) {
    for (const Operand operand : operands(instr)) {
      const std::uint32_t root = lives_[operand.buffer].root;
      const Life& life = lives_[root];
      if (life.transient && life.taken && life.last_use == index)
        of(life.taker).this_pass.merge(accesses.outstanding(root));
    }
  }

 private:
  struct Life {
    std::uint32_t root = 0, last_use = 0;  // last_use in the list as given
    bool transient = false, taken = false;
    Stream taker{};
  };
  struct Release {
    Clock this_pass, one_pass_ago, due;
  };
  std::span<const Operand> operands(const Instr& instr) const {
    return {program_.operands.data() + instr.first_operand, instr.operands};
  }
  Release& of(Stream stream) { return releases_[static_cast<std::size_t>(stream)]; }

  const Program& program_;
  std::vector<Life> lives_;
  std::array<Release, kStreams> releases_{};
  std::uint32_t pass_ = kNone;
};

// Rewrites a program's list with waits and joins.
class WaitDerivation {
 public:
  explicit WaitDerivation(Program& program)
      : program_(program), accesses_(program), release_(program) {}

  void run() {
    const std::span<const Instr> given(program_.code);
    code_.reserve(given.size() + given.size() / 8);
    progress_.reserve(code_.capacity());
    moved_.reserve(given.size());
    for (std::size_t i = 0; i < given.size();) {
      const auto group = group_at(given, i);
      add(group, i);
      i += group.size();
    }
    program_.code = std::move(code_);
  }

 private:
  void add(std::span<const Instr> group, std::size_t index) {
    Clock conflicts;
    for (const Instr& member : group) {
      release_.enter(member);
      accesses_.collect(member, conflicts);
      release_.take(member, conflicts);
      for (const std::uint32_t wait : member.waits)
        if (wait != kNone) keep(wait, index, conflicts);
    }
    Clock start = progress_.next(group[0].stream);
    for (const Instr& member : group.subspan(1)) start.merge(progress_.next(member.stream));
    if (group.size() == 1 && start.covers(conflicts)) {
      append(group[0]);
      progress_.append(group[0].stream);
    } else {
      wait_and_append(group, conflicts, start);
    }
    const std::size_t first = code_.size() - group.size();
    for (std::size_t m = 0; m < group.size(); ++m) {
      moved_.push_back(static_cast<std::uint32_t>(first + m));
      accesses_.record(group[m], first + m);
    }
    for (std::size_t m = 0; m < group.size(); ++m)
      release_.release(group[m], static_cast<std::uint32_t>(index + m), accesses_);
  }

  // A wait that the planner has set, by the index it had in the list as given.
  void keep(std::uint32_t wait, std::size_t index, Clock& conflicts) const {
    check(wait < index, "instruction {} waits for {}, which comes later", index, wait);
    conflicts.raise(code_[moved_[wait]].stream, static_cast<std::int32_t>(moved_[wait]) + 1);
  }

  void append(const Instr& instr) {
    code_.push_back(instr);
    code_.back().waits = {kNone, kNone};
  }

  // The fewest waits that imply all conflicts: from the latest on, as only a later instruction can
  // know of an earlier one's end.
  void wait_and_append(std::span<const Instr> group, const Clock& conflicts, Clock start) {
    std::array<std::int32_t, kStreams> ends{};
    int count = 0;
    for (int s = 0; s < kStreams; ++s)
      if (conflicts.at[s] > start.at[s]) ends[count++] = conflicts.at[s];
    std::sort(ends.begin(), ends.begin() + count, std::greater<>());
    int kept = 0;
    for (int e = 0; e < count; ++e) {
      const auto instr = static_cast<std::uint32_t>(ends[e] - 1);
      if (start[code_[instr].stream] >= ends[e]) continue;
      start.merge(progress_.end(instr));
      ends[kept++] = ends[e];
    }
    place(group, {ends.data(), static_cast<std::size_t>(kept)}, start);
  }

  // Appends the group with these waits: two on each member, the rest on joins in front.
  void place(std::span<const Instr> group, std::span<const std::int32_t> ends, const Clock& start) {
    std::size_t next = 0;
    const auto fill = [&](Instr& instr) {
      for (std::uint32_t& wait : instr.waits)
        if (next < ends.size()) wait = static_cast<std::uint32_t>(ends[next++] - 1);
    };
    while (ends.size() - next > 2 * group.size()) {
      Instr join;
      join.op = Op::join;
      join.stream = group[0].stream;
      join.pass = group[0].pass;
      fill(join);
      Clock known = progress_.next(join.stream);
      for (const std::uint32_t wait : join.waits) known.merge(progress_.end(wait));
      progress_.append({&join, 1}, known);
      code_.push_back(join);
    }
    const std::size_t first = code_.size();
    for (const Instr& member : group) {
      append(member);
      fill(code_.back());
    }
    Clock known = start;
    known.merge(progress_.next(group[0].stream));  // its joins
    progress_.append(std::span(code_).subspan(first), known);
  }

  Program& program_;
  AccessTracker accesses_;
  ReleaseRule release_;
  Progress progress_;
  std::vector<Instr> code_;
  std::vector<std::uint32_t> moved_;  // index in code_ of each instruction as given
};

}  // namespace

void derive_waits(Program& program) { WaitDerivation(program).run(); }

}  // namespace trainyard
