#include "core/plan/waits.h"

#include <algorithm>
#include <array>
#include <bit>
#include <span>
#include <utility>
#include <vector>

#include "core/error.h"
#include "core/program/accesses.h"
#include "core/program/happens_before.h"

namespace trainyard {
namespace {

// When the memory of transient buffers may be used again. The stream that writes a buffer first
// takes its memory; before that stream takes more, it waits for the last uses of its buffers by
// other streams, but only for those two compute passes back, which ended long ago as a rule.
class ReleaseRule {
 public:
  explicit ReleaseRule(const Program& program) : lives_(program.buffers.size()) {
    const std::vector<UseSpan> spans = use_spans(program);
    for (std::size_t b = 0; b < lives_.size(); ++b) lives_[b].last_use = spans[b].last;
  }

  // To be called for each instruction in list order, before the two below.
  void enter(const Instr& instr) {
    if (instr.stream != Stream::compute || instr.pass == kNone || instr.pass == pass_) return;
    pass_ = instr.pass;
    for (Release& release : releases_) {
      if (release.one_pass_ago != Clock{}) release.heeded = false;
      release.due.merge(release.one_pass_ago);
      release.one_pass_ago = release.this_pass;
      release.this_pass = {};
    }
  }

  // What an instruction of `stream` must wait for before it writes `root`, perhaps for the first
  // time; none if the buffer has its memory, or if the stream has waited since the last pass.
  const Clock* take(std::uint32_t root, Stream stream) {
    Life& life = lives_[root];
    if (life.taken) return nullptr;
    life.taken = true;
    life.taker = stream;
    Release& release = of(stream);
    return std::exchange(release.heeded, true) ? nullptr : &release.due;
  }

  // Notes that the instruction at `index`, already recorded, uses `root`.
  void use(std::uint32_t root, std::uint32_t index, const AccessTracker& accesses) {
    const Life& life = lives_[root];
    if (life.last_use != index || !life.taken) return;
    Clock& clock = of(life.taker).this_pass;
    accesses.outstanding(root, [&](Stream s, std::int32_t count) { clock.raise(s, count); });
  }

 private:
  struct Life {
    std::uint32_t last_use = kNone;
    bool taken = false;
    Stream taker{};
  };
  struct Release {
    Clock this_pass, one_pass_ago, due;
    bool heeded = true;
  };
  Release& of(Stream stream) { return releases_[static_cast<std::size_t>(stream)]; }

  std::vector<Life> lives_;
  std::array<Release, kStreams> releases_{};
  std::uint32_t pass_ = kNone;
};

// For some streams, one more than the index of an instruction that must have ended.
class Needs {
 public:
  bool empty() const { return streams_ == 0; }
  void add(Stream stream, std::int32_t count) {
    const auto s = static_cast<std::size_t>(stream);
    counts_[s] = (streams_ >> s & 1) != 0 ? std::max(counts_[s], count) : count;
    streams_ |= 1u << s;
  }
  // Writes the counts to `out`, the largest first; returns how many.
  std::size_t descending(std::array<std::int32_t, kStreams>& out) const {
    std::size_t size = 0;
    for (std::uint32_t left = streams_; left != 0; left &= left - 1) {
      const std::int32_t count = counts_[static_cast<std::size_t>(std::countr_zero(left))];
      std::size_t at = size++;
      for (; at > 0 && out[at - 1] < count; --at) out[at] = out[at - 1];
      out[at] = count;
    }
    return size;
  }

 private:
  std::array<std::int32_t, kStreams> counts_;  // of the streams whose bit is set
  std::uint32_t streams_ = 0;
};

// Fills in the waits of a program; what does not fit into an instruction becomes joins at the end.
class WaitDerivation {
 public:
  explicit WaitDerivation(Program& program)
      : program_(program), accesses_(program), release_(program) {}

  void run() {
    const std::span<Instr> code(program_.code);
    order_.reserve(code.size());
    for (std::uint32_t i = 0; i < code.size();) {
      const auto group = code.subspan(i, group_at(code, i).size());
      derive(group, i);
      for (const Instr& member : group) record(member, i++);
    }
    if (!joins_.empty()) insert_joins();
  }

 private:
  struct Join {
    std::uint32_t before = 0;  // index of the instruction that it stands in front of
    Instr instr;
  };

  void derive(std::span<Instr> group, std::uint32_t index) {
    const Stream stream = group[0].stream;
    if (group.size() == 1) {
      const Known known = order_.next(stream);
      const Needs needs = needs_of(group, index, known);
      if (needs.empty()) return order_.append(stream);
      return wait(group, index, needs, known.clock());
    }
    Clock start;
    for (const Instr& member : group) start.merge(order_.next(member.stream).clock());
    wait(group, index, needs_of(group, index, {start, stream, start[stream]}), start);
  }

  // What the group must wait for, beyond what is known; forgets the waits that the planner set.
  Needs needs_of(std::span<Instr> group, std::uint32_t index, const Known& known) {
    Needs needs;
    const auto need = [&](Stream stream, std::int32_t count) {
      if (count > known[stream]) needs.add(stream, count);
    };
    for (Instr& member : group) {
      release_.enter(member);
      for (const Operand operand : operands_of(program_, member)) {
        accesses_.conflicts(operand, need);
        if (!operand.writes() || !accesses_.fresh(operand.buffer)) continue;
        if (const Clock* due = release_.take(accesses_.root(operand.buffer), member.stream))
          for (int s = 0; s < kStreams; ++s) need(static_cast<Stream>(s), due->at[s]);
      }
      for (std::uint32_t& wait : member.waits) {
        if (wait == kNone) continue;
        check(wait < index, "instruction {} waits for {}, which comes later", index, wait);
        need(program_.code[wait].stream, static_cast<std::int32_t>(wait) + 1);
        wait = kNone;
      }
    }
    return needs;
  }

  void record(const Instr& instr, std::uint32_t index) {
    for (const Operand operand : operands_of(program_, instr))
      accesses_.record(operand, instr.stream, static_cast<std::int32_t>(index) + 1);
    for (const Operand operand : operands_of(program_, instr))
      release_.use(accesses_.root(operand.buffer), index, accesses_);
  }

  // The fewest waits that imply all that is needed: from the latest on, as only a later
  // instruction can know of an earlier one's end.
  void wait(std::span<Instr> group, std::uint32_t index, const Needs& needs, Clock start) {
    std::array<std::int32_t, kStreams> counts;
    const std::size_t needed = needs.descending(counts);
    std::size_t kept = 0;
    for (std::size_t c = 0; c < needed; ++c) {
      const auto instr = static_cast<std::uint32_t>(counts[c] - 1);
      if (c > 0 && start[program_.code[instr].stream] >= counts[c]) continue;
      order_.add_end(instr, start);
      counts[kept++] = counts[c];
    }
    place(group, index, {counts.data(), kept});
    order_.append(group, start);
  }

  // Two waits on each member, the rest on joins in front of the group.
  void place(std::span<Instr> group, std::uint32_t index, std::span<const std::int32_t> counts) {
    const auto fill = [&](Instr& instr) {
      for (std::uint32_t& wait : instr.waits) {
        if (counts.empty()) return;
        wait = static_cast<std::uint32_t>(counts[0] - 1);
        counts = counts.subspan(1);
      }
    };
    while (counts.size() > 2 * group.size()) {
      Instr join;
      join.op = Op::join;
      join.stream = group[0].stream;
      join.pass = group[0].pass;
      fill(join);
      joins_.push_back({index, join});
    }
    for (Instr& member : group) fill(member);
  }

  void insert_joins() {
    std::vector<Instr> code;
    code.reserve(program_.code.size() + joins_.size());
    std::vector<std::uint32_t> moved(program_.code.size());
    const auto append = [&](Instr instr) {
      for (std::uint32_t& wait : instr.waits)
        if (wait != kNone) wait = moved[wait];
      code.push_back(instr);
    };
    std::size_t join = 0;
    for (std::uint32_t i = 0; i < moved.size(); ++i) {
      for (; join < joins_.size() && joins_[join].before == i; ++join) append(joins_[join].instr);
      moved[i] = static_cast<std::uint32_t>(code.size());
      append(program_.code[i]);
    }
    program_.code = std::move(code);
  }

  Program& program_;
  AccessTracker accesses_;
  ReleaseRule release_;
  HappensBefore order_;
  std::vector<Join> joins_;
};

}  // namespace

void derive_waits(Program& program) { WaitDerivation(program).run(); }

}  // namespace trainyard
