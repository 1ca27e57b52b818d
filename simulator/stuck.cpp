#include <fmt/format.h>

#include <algorithm>

#include "simulator/executor.h"

namespace trainyard {
namespace {

constexpr std::size_t kLines = 40;

class StuckReport {
 public:
  StuckReport(const Scene& scene, const Executor& executor) : scene_(scene), executor_(executor) {}

  std::string text() {
    for (const auto& island : executor_.islands())
      for (const Gang& gang : island->gangs())
        for (std::size_t s = 0; s < kStreams; ++s)
          if (gang.next[s] != kNone) add(*island, gang, gang.next[s]);
    if (blocked_ > lines_.size())
      lines_.push_back(fmt::format("… and {} more", blocked_ - lines_.size()));
    return fmt::format("{}", fmt::join(lines_, "\n"));
  }

 private:
  void add(const Island& island, const Gang& gang, std::uint32_t at) {
    ++blocked_;
    if (lines_.size() < kLines)
      lines_.push_back(
          fmt::format("{} waits for {}", describe(island, gang, at), awaited(island, gang, at)));
  }

  // The gang's first rank stands for all: they are blocked alike.
  std::int64_t rank(const Island& island, std::int32_t stage) const {
    return index(scene_.layout.rank(stage, island.index(), 0));
  }

  // Helpers have no instruction; the next one of their stream tells where the rank is.
  static std::uint32_t instruction(const Gang& gang, std::uint32_t at) {
    while (at != kNone && gang.program->instr_of[at] == kNone) at = gang.program->steps[at].next;
    return at == kNone ? kNone : gang.program->instr_of[at];
  }

  std::string describe(const Island& island, const Gang& gang, std::uint32_t at) const {
    const std::uint32_t i = instruction(gang, at);
    if (i == kNone) return fmt::format("rank {} end of a group", rank(island, gang.stage));
    const Program& program = *gang.program->source;
    const Instr& instr = program.code[i];
    std::string text = fmt::format("rank {} instruction {} {} on {}", rank(island, gang.stage), i,
                                   op_name(instr.op), stream_name(instr.stream));
    if (instr.pass != kNone) {
      const Pass& pass = program.passes[instr.pass];
      text += fmt::format(" ({}, micro-batch {}, chunk {})", pass_name(pass.kind), pass.micro_batch,
                          pass.chunk);
    }
    return text;
  }

  std::string awaited(const Island& island, const Gang& gang, std::uint32_t at) const {
    const Step& step = gang.program->steps[at];
    for (std::size_t k = 0; k < 3; ++k)
      if (gang.next[step.wait_streams[k]] <= step.waits[k])
        return fmt::format("its own instruction {}", instruction(gang, step.waits[k]));
    const SharedOp& op = gang.program->shared[step.detail];
    return op.transfers > 0 ? peers(island, gang, op) : absent(island, gang, op);
  }

  std::string peers(const Island& island, const Gang& gang, const SharedOp& op) const {
    std::vector<std::string> waits;
    for (std::uint32_t t = op.first_transfer; t < op.first_transfer + op.transfers; ++t) {
      const TransferEnd& side = gang.program->transfers[t];
      const Gang& peer = island.gangs()[static_cast<std::size_t>(side.peer_stage)];
      if (side.peer_step != kNone && peer.next[side.peer_stream] > side.peer_step) continue;
      const std::string what =
          fmt::format("rank {} to {} tag {}", rank(island, peer.stage),
                      side.sends ? "receive" : "send", gang.program->source->code[side.instr].what);
      if (side.peer_step == kNone)
        waits.push_back(what + ", which its program never does");
      else
        waits.push_back(fmt::format("{} (instruction {}, it is at {})", what,
                                    instruction(peer, side.peer_step),
                                    instruction(peer, peer.next[side.peer_stream])));
    }
    return fmt::format("{}", fmt::join(waits, " and "));
  }

  // Members of a collective that have not come: the first two, and how many more.
  std::string absent(const Island& island, const Gang& gang, const SharedOp& op) const {
    std::vector<std::string> names;
    std::size_t count = 0;
    for (const auto& other : executor_.islands()) {
      if (other->index() != island.index() && !executor_.crossings().crosses(op.group)) continue;
      if (op.group == Group::context && !scene_.layout.share(other->index(), island.index()))
        continue;
      for (const Gang& member : other->gangs()) {
        if (!belongs(member, gang, op.group) || arrived(member, op)) continue;
        if (++count > 2) continue;
        std::uint32_t at = kNone;  // the earliest that it has not done yet
        for (std::size_t s = 0; s < kStreams; ++s) at = std::min(at, member.next[s]);
        const std::uint32_t i = instruction(member, at);
        names.push_back(fmt::format("rank {} ({})", rank(*other, member.stage),
                                    i == kNone ? "ended" : fmt::format("it is at {}", i)));
      }
    }
    return fmt::format("{}{} in its {} group", fmt::join(names, ", "),
                       count > 2 ? fmt::format(" and {} more", count - 2) : "",
                       group_name(op.group));
  }

  bool belongs(const Gang& member, const Gang& gang, Group group) const {
    if (group == Group::data || within_layers(group)) return member.stage == gang.stage;
    const std::int32_t last = scene_.layout.stages - 1;
    return group != Group::embedding || member.stage == 0 || member.stage == last;
  }

  static bool arrived(const Gang& member, const SharedOp& op) {
    const auto& steps = member.program->collectives[static_cast<std::size_t>(op.group)];
    if (op.sequence >= steps.size()) return false;
    const std::uint32_t at = steps[op.sequence];
    const std::uint8_t stream = member.program->steps[at].stream;
    return member.next[stream] > at ||
           (member.next[stream] == at && (member.posted >> stream & 1) != 0);
  }

  const Scene& scene_;
  const Executor& executor_;
  std::vector<std::string> lines_;
  std::size_t blocked_ = 0;
};

}  // namespace

std::string stuck_report(const Scene& scene, const Executor& executor) {
  return StuckReport(scene, executor).text();
}

}  // namespace trainyard
