#include "core/plan/waits.h"

#include <algorithm>
#include <array>
#include <functional>
#include <span>
#include <vector>

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
  ReleaseRule(const Program& program, const AccessTracker& accesses)
      : program_(program), accesses_(accesses), lives_(program.buffers.size()) {
    const std::vector<UseSpan> spans = use_spans(program);
    for (std::uint32_t b = 0; b < lives_.size(); ++b) {
      lives_[b].transient = !program.buffer_types[program.buffers[b].type].persistent;
      lives_[b].last_use = spans[b].last;
    }
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

  // What `instr` must wait for because it takes memory; none if it takes none, or if an earlier
  // instruction of its stream has waited.
  const Clock* take(const Instr& instr) {
    bool takes = false;
    for (const Operand operand : operands_of(program_, instr)) {
      if (!operand.writes()) continue;
      Life& life = lives_[accesses_.root(operand.buffer)];
      if (!life.transient || life.taken) continue;
      life.taken = takes = true;
      life.taker = instr.stream;
    }
    if (!takes || of(instr.stream).heeded) return nullptr;
    of(instr.stream).heeded = true;
    return &of(instr.stream).due;
  }

  // Notes the last uses that `instr`, already recorded, makes at `index`.
  void release(const Instr& instr, std::uint32_t index) {
    for (const Operand operand : operands_of(program_, instr)) {
      const std::uint32_t root = accesses_.root(operand.buffer);
      const Life& life = lives_[root];
      if (life.last_use != index || !life.taken) continue;
      Clock& clock = of(life.taker).this_pass;
      accesses_.outstanding(root, [&](Stream s, std::int32_t count) { clock.raise(s, count); });
    }
  }

 private:
  struct Life {
    std::uint32_t last_use = kNone;
    bool transient = false, taken = false;
    Stream taker{};
  };
  struct Release {
    Clock this_pass, one_pass_ago, due;
    bool heeded = true;
  };
  Release& of(Stream stream) { return releases_[static_cast<std::size_t>(stream)]; }

  const Program& program_;
  const AccessTracker& accesses_;
  std::vector<Life> lives_;
  std::array<Release, kStreams> releases_{};
  std::uint32_t pass_ = kNone;
};

// Fills in the waits of a program; what does not fit into an instruction becomes joins at the end.
class WaitDerivation {
 public:
  explicit WaitDerivation(Program& program)
      : program_(program), accesses_(program), release_(program, accesses_) {}

  void run() {
    const std::span<Instr> code(program_.code);
    progress_.reserve(code.size());
    for (std::size_t i = 0; i < code.size();) {
      const auto group = code.subspan(i, group_at(code, i).size());
      derive(group, i);
      for (std::size_t m = 0; m < group.size(); ++m) accesses_.record(group[m], i + m);
      for (std::size_t m = 0; m < group.size(); ++m)
        release_.release(group[m], static_cast<std::uint32_t>(i + m));
      i += group.size();
    }
    if (!joins_.empty()) insert_joins();
  }

 private:
  struct Join {
    std::uint32_t before = 0;  // index of the instruction that it stands in front of
    Instr instr;
  };

  void derive(std::span<Instr> group, std::size_t index) {
    Clock start = progress_.next(group[0].stream);
    for (const Instr& member : group.subspan(1)) start.merge(progress_.next(member.stream));
    Clock needed;
    bool missing = false;
    const auto need = [&](Stream stream, std::int32_t count) {
      if (count <= start[stream]) return;
      needed.raise(stream, count);
      missing = true;
    };
    for (Instr& member : group) {
      release_.enter(member);
      accesses_.conflicts(member, need);
      if (const Clock* due = release_.take(member))
        for (int s = 0; s < kStreams; ++s) need(static_cast<Stream>(s), due->at[s]);
      for (const std::uint32_t wait : member.waits) {
        if (wait == kNone) continue;
        check(wait < index, "instruction {} waits for {}, which comes later", index, wait);
        need(program_.code[wait].stream, static_cast<std::int32_t>(wait) + 1);
      }
      member.waits = {kNone, kNone};
    }
    if (missing) wait(group, index, needed, start);
    if (missing || group.size() > 1) {
      progress_.append(group, start);
    } else {
      progress_.append(group[0].stream);
    }
  }

  // The fewest waits that imply all that is needed: from the latest on, as only a later
  // instruction can know of an earlier one's end. Adds what they tell to `start`.
  void wait(std::span<Instr> group, std::size_t index, const Clock& needed, Clock& start) {
    std::array<std::int32_t, kStreams> counts{};
    std::size_t found = 0, kept = 0;
    for (int s = 0; s < kStreams; ++s)
      if (needed.at[s] != 0) counts[found++] = needed.at[s];
    if (found > 1) std::sort(counts.begin(), counts.begin() + found, std::greater<>());
    for (std::size_t c = 0; c < found; ++c) {
      const auto instr = static_cast<std::uint32_t>(counts[c] - 1);
      if (start[program_.code[instr].stream] >= counts[c]) continue;
      start.merge(progress_.end(instr));
      counts[kept++] = counts[c];
    }
    place(group, index, {counts.data(), kept});
  }

  // Two waits on each member, the rest on joins in front of the group.
  void place(std::span<Instr> group, std::size_t index, std::span<const std::int32_t> counts) {
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
      joins_.push_back({static_cast<std::uint32_t>(index), join});
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
  Progress progress_;
  std::vector<Join> joins_;
};

}  // namespace

void derive_waits(Program& program) { WaitDerivation(program).run(); }

}  // namespace trainyard
