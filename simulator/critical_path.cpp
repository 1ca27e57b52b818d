#include "simulator/critical_path.h"

#include <algorithm>
#include <cstdlib>

#include "core/error.h"

namespace trainyard {
namespace {

struct Place {
  std::int32_t island = 0, stage = 0, lane = 0;
  std::uint32_t step = 0;
};

class PathWalker {
 public:
  PathWalker(const Scene& scene, const Executor& executor, History& history, std::int32_t target)
      : scene_(scene), executor_(executor), history_(history), target_(target) {}

  std::vector<PathSegment> run() {
    at_ = last_place();
    while (go_back()) {
    }
    return std::move(path_);
  }

 private:
  const CompiledProgram& program() const { return scene_.program(at_.stage); }
  const Step& step() const { return program().steps[at_.step]; }

  std::int64_t number(const Place& place, bool end) {
    const Recording& recording = history_.of(place.island);
    const auto& lanes = recording.gangs[static_cast<std::size_t>(place.stage)];
    return (end ? lanes.end
                : lanes.start)[place.step * recording.lanes + static_cast<std::size_t>(place.lane)];
  }
  std::int64_t start(const Place& place) { return number(place, false); }
  std::int64_t end(const Place& place) { return number(place, true); }

  std::int32_t distance(std::int32_t stage) const { return std::abs(stage - target_); }

  // Where the step's last instruction ended; of several places the one nearest to the target.
  Place last_place() const {
    Place best;
    std::int64_t latest = -1;
    for (const auto& island : executor_.islands())
      for (const Gang& gang : island->gangs())
        for (std::size_t s = 0; s < kStreams; ++s) {
          if (gang.program->last[s] == kNone) continue;
          for (std::size_t lane = 0; lane < island->lanes(); ++lane) {
            const std::int64_t time = gang.free[s * island->lanes() + lane];
            if (time < latest || (time == latest && distance(gang.stage) >= distance(best.stage)))
              continue;
            latest = time;
            best = {island->index(), gang.stage, static_cast<std::int32_t>(lane),
                    gang.program->last[s]};
          }
        }
    check(latest >= 0, "there is nothing to run");
    return best;
  }

  void emit(std::uint32_t instr, std::int64_t from, std::int64_t to, std::int64_t excess = 0) {
    if (to > from)
      path_.push_back({PathSegment::Kind::instruction, at_.stage, instr, from, to, excess,
                       at_.island, at_.lane});
  }

  // Adds the segment of the step at hand and goes to what bound its start; false at the beginning.
  bool go_back() {
    switch (step().kind) {
      case StepKind::collective:
        cross_lanes();
        break;
      case StepKind::shared:
        program().shared[step().detail].transfers > 0 ? cross_transfer() : cross_collective();
        break;
      default:
        emit(program().instr_of[at_.step], start(at_), end(at_), excess());
    }
    return to_predecessor(start(at_));
  }

  std::int64_t excess() {
    const Recording& recording = history_.of(at_.island);
    const auto& excess = recording.gangs[static_cast<std::size_t>(at_.stage)].excess;
    return excess.empty() ? 0
                          : excess[at_.step * recording.lanes + static_cast<std::size_t>(at_.lane)];
  }

  // Goes to the member that was ready last; stays if that is where the path is.
  void leave_with_last(const std::vector<Place>& members) {
    Place last = at_;
    for (const Place& member : members) {
      const std::int64_t gain = start(member) - start(last);
      if (gain > 0 || (gain == 0 && distance(member.stage) < distance(last.stage))) last = member;
    }
    emit(program().instr_of[at_.step], start(last), end(at_));
    at_ = last;
  }

  void cross_lanes() {
    std::vector<Place> members;
    for (std::int32_t lane = 0; lane < scene_.layout.lanes; ++lane) {
      members.push_back(at_);
      members.back().lane = lane;
    }
    leave_with_last(members);
  }

  void cross_collective() {
    const SharedOp& op = program().shared[step().detail];
    if (op.group == Group::tensor) return cross_lanes();
    const auto group = static_cast<std::size_t>(op.group);
    std::vector<Place> members;
    const auto add = [&](std::int32_t island, std::int32_t stage, std::int32_t lane) {
      const auto& steps = scene_.program(stage).collectives[group];
      if (op.sequence < steps.size()) members.push_back({island, stage, lane, steps[op.sequence]});
    };
    if (executor_.crossings().takes(op, at_.stage, at_.island)) {
      const std::uint32_t id = executor_.crossings().id(op, at_.stage, at_.island);
      const auto last = executor_.crossings().last(id, at_.lane);
      if (end(at_) - start(at_) > executor_.crossings().duration(id, at_.lane))
        add(last.island, last.stage, last.lane);
    } else if (op.group != Group::data && op.group != Group::context) {
      const bool all_lanes = spans_lanes(op.group);
      const bool ends_only = op.group == Group::embedding;
      for (std::int32_t stage = 0; stage < scene_.layout.stages; ++stage) {
        if (ends_only && stage != 0 && stage != scene_.layout.stages - 1) continue;
        for (std::int32_t lane = 0; lane < scene_.layout.lanes; ++lane)
          if (all_lanes || lane == at_.lane) add(at_.island, stage, lane);
      }
    }
    leave_with_last(members);
  }

  // Of the transfers of the step, the one that ended last, and of its two sides the later one.
  void cross_transfer() {
    const SharedOp& op = program().shared[step().detail];
    for (std::uint32_t t = op.first_transfer; t < op.first_transfer + op.transfers; ++t) {
      const TransferEnd& side = program().transfers[t];
      const Place peer{at_.island, side.peer_stage, at_.lane, side.peer_step};
      const Place& from = side.sends ? at_ : peer;
      const Place& to = side.sends ? peer : at_;
      const RankId sender = scene_.layout.rank(from.stage, from.island, from.lane);
      const std::int64_t ready = std::max(start(at_), start(peer));
      const std::uint32_t route = scene_.topology.route(sender, to.stage - from.stage);
      const std::int64_t ended =
          scene_.flows.message(route)
              ? executor_.transfer_ends().of(from.island, from.stage,
                                             side.sends ? t : side.peer_transfer)[at_.lane]
              : ready + scene_.times.message(side.message, route);
      if (ended != end(at_)) continue;
      emit(side.instr, ready, end(at_));
      const bool towards = distance(peer.stage) < distance(at_.stage);
      if (start(at_) < ready || (start(peer) == ready && towards)) at_ = peer;
      return;
    }
    check(false, "no transfer bounds its own end");
  }

  // How much nearer to the target a predecessor leads: receives lead to their sender's stage.
  std::int32_t gain(std::uint32_t step) const {
    const Step& candidate = program().steps[step];
    if (candidate.kind != StepKind::shared) return 0;
    const SharedOp& op = program().shared[candidate.detail];
    std::int32_t best = 0;
    for (std::uint32_t t = op.first_transfer; t < op.first_transfer + op.transfers; ++t)
      best = std::max(best, distance(at_.stage) - distance(program().transfers[t].peer_stage));
    return best;
  }

  bool to_predecessor(std::int64_t now) {
    if (now == 0) return false;
    std::uint32_t previous = program().previous[at_.step];
    while (previous != kNone && (program().steps[previous].kind == StepKind::window ||
                                 program().steps[previous].kind == StepKind::resync))
      previous = program().previous[previous];
    std::uint32_t best = kNone;
    const auto consider = [&](std::uint32_t candidate) {
      if (candidate == kNone || end({at_.island, at_.stage, at_.lane, candidate}) != now) return;
      if (best == kNone || gain(candidate) > gain(best)) best = candidate;
    };
    consider(previous);
    for (std::size_t k = 0; k < 2; ++k)
      if (step().wait_streams[k] != kAlways) consider(step().waits[k]);
    if (best == kNone) return to_issuer(now);
    at_.step = best;
    return true;
  }

  // The step was bound by its issue: back to what the host had done before.
  bool to_issuer(std::int64_t now) {
    const std::int64_t issued = now - step().issue_delay;
    const bool first = step().wait_streams[2] == kAlways;
    const std::uint32_t here = at_.step;
    if (now > issued)
      path_.push_back({PathSegment::Kind::launch, at_.stage, kNone, issued, now, 0});
    at_.step = step().waits[2];
    check(issued == (first ? late() : end(at_)), "stage {} step {} starts for no reason", at_.stage,
          here);
    if (first && issued > 0)
      path_.push_back({PathSegment::Kind::late, at_.stage, kNone, 0, issued, 0});
    return !first;
  }

  std::int64_t late() const {
    const RankDisturbance* const disturbance =
        scene_.disturbances.of(scene_.layout.rank(at_.stage, at_.island, at_.lane));
    return disturbance == nullptr ? 0 : disturbance->late().value;
  }

  const Scene& scene_;
  const Executor& executor_;
  History& history_;
  std::int32_t target_;
  Place at_;
  std::vector<PathSegment> path_;
};

bool is_own_work(const PathSegment& segment, const Program& program, std::int32_t bounding_stage) {
  const std::uint32_t pass = program.code[segment.instr].pass;
  if (segment.stage == bounding_stage || pass == kNone) return true;
  const PassKind kind = program.passes[pass].kind;
  return kind == PassKind::setup || kind == PassKind::optimizer;
}

}  // namespace

std::vector<PathSegment> critical_path(const Scene& scene, const Executor& executor,
                                       History& history, std::int32_t target) {
  return PathWalker(scene, executor, history, target).run();
}

const std::vector<KernelTimes::Interval>& KernelTimes::of(std::int32_t island, std::int32_t lane) {
  const auto [found, missing] = kept_.try_emplace({island, lane});
  std::vector<Interval>& intervals = found->second;
  if (!missing) return intervals;
  const CompiledProgram& program = scene_.program(stage_);
  const Recording& recording = history_.of(island);
  const Recording::Lanes& lanes = recording.gangs[static_cast<std::size_t>(stage_)];
  std::int64_t before = 0;
  for (std::uint32_t step = program.first[static_cast<std::size_t>(Stream::compute)]; step != kNone;
       step = program.steps[step].next) {
    if (program.instr_of[step] == kNone) continue;
    const std::size_t at = step * recording.lanes + static_cast<std::size_t>(lane);
    intervals.push_back({lanes.start[at], lanes.end[at], before});
    before += lanes.end[at] - lanes.start[at];
  }
  return intervals;
}

std::int64_t KernelTimes::within(const PathSegment& segment) {
  const std::vector<Interval>& kernels = of(segment.island, segment.lane);
  const auto until = [&](std::int64_t time) -> std::int64_t {
    const auto next = std::ranges::upper_bound(kernels, time, {}, &Interval::start);
    if (next == kernels.begin()) return 0;
    const Interval& last = *std::prev(next);
    return last.before + std::min(time, last.end) - last.start;
  };
  return until(segment.to) - until(segment.from);
}

Cause cause_of(const PathSegment& segment, const Program& program, std::int32_t bounding_stage) {
  if (segment.kind == PathSegment::Kind::launch) return Cause::other;
  if (segment.kind == PathSegment::Kind::late) return Cause::straggler;
  const Instr& instr = program.code[segment.instr];
  const bool own = is_own_work(segment, program, bounding_stage);
  switch (instr.op) {
    case Op::kernel: {
      if (!own) return Cause::bubble;
      const bool optimizer =
          instr.pass != kNone && program.passes[instr.pass].kind == PassKind::optimizer;
      return optimizer ? Cause::optimizer : Cause::compute;
    }
    case Op::send:
    case Op::recv:
      return Cause::pipeline_comm;
    case Op::copy:
      return Cause::data_stall;
    case Op::host:
      return instr.what == static_cast<std::uint32_t>(HostWork::load_batch) ? Cause::data_stall
                                                                            : Cause::other;
    case Op::join:
      return Cause::other;
    default:
      if (!within_layers(instr.group)) return Cause::data_comm;
      if (!own) return Cause::bubble;
      return instr.group == Group::tensor ? Cause::tensor_comm : Cause::context_comm;
  }
}

}  // namespace trainyard
