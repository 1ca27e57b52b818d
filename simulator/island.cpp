#include "simulator/island.h"

#include <algorithm>

namespace trainyard {

Island::Island(const Scene& scene, std::int32_t island, TransferEnds& ends, Recording* recording)
    : scene_(scene),
      island_(island),
      width_(static_cast<std::size_t>(scene.layout.lanes)),
      recording_(recording),
      transfer_ends_(ends) {
  const auto stages = static_cast<std::size_t>(scene.layout.stages);
  std::size_t size = 0;
  for (const CompiledProgram& program : scene.programs) size += rows(program) * width_;
  memory_.resize(size);
  if (scene.contention > 1) windows_.resize(stages * kWindows * width_);
  gangs_.resize(stages);
  routes_.resize(stages * stages * width_);
  if (scene.disturbances.any()) disturbances_.resize(stages * width_);
  std::int64_t* memory = memory_.data();
  for (std::size_t s = 0; s < stages; ++s) {
    Gang& gang = gangs_[s];
    gang.program = &scene.programs[s];
    gang.stage = static_cast<std::int32_t>(s);
    if (!windows_.empty()) gang.windows = windows_.data() + s * kWindows * width_;
    open_gang(gang, memory);
    memory += rows(scene.programs[s]) * width_;
    queue_.push_back(gang.stage);
    gang.queued = true;
  }
  if (recording_ == nullptr) return;
  recording_->lanes = width_;
  recording_->gangs.resize(stages);
  for (std::size_t s = 0; s < stages; ++s) {
    const std::size_t numbers = scene.programs[s].steps.size() * width_;
    recording_->gangs[s].start.assign(numbers, 0);
    recording_->gangs[s].end.assign(numbers, 0);
    if (scene.disturbances.any()) recording_->gangs[s].excess.assign(numbers, 0);
  }
}

std::size_t Island::rows(const CompiledProgram& program) const {
  return std::size_t{3 * kStreams} + program.slots;
}

void Island::open_gang(Gang& gang, std::int64_t* memory) {
  const CompiledProgram& program = *gang.program;
  gang.free = memory;
  gang.ready = row(gang.free, kStreams);
  gang.end = row(gang.ready, kStreams);
  gang.slots = row(gang.end, kStreams);
  std::copy(program.first.begin(), program.first.end(), gang.next.begin());
  gang.next[kAlways] = kNone;
  const Layout& layout = scene_.layout;
  gang.tensor_shape = scene_.topology.shape(Group::tensor, layout.coord(gang.stage, island_, 0));
  for (std::size_t lane = 0; lane < width_; ++lane) {
    const RankId rank = layout.rank(gang.stage, island_, static_cast<std::int32_t>(lane));
    for (std::int32_t to = 0; to < layout.stages; ++to)
      routes_[static_cast<std::size_t>(gang.stage * layout.stages + to) * width_ + lane] =
          static_cast<std::uint16_t>(scene_.topology.route(rank, to - gang.stage));
    if (!scene_.on_shared_cores.empty())
      shared_.push_back(
          scene_.on_shared_cores[static_cast<std::size_t>(trainyard::index(rank))].data());
    if (disturbances_.empty()) continue;
    const RankDisturbance* disturbance = scene_.disturbances.of(rank);
    disturbances_[static_cast<std::size_t>(gang.stage) * width_ + lane] = disturbance;
    if (disturbance == nullptr) continue;
    gang.disturbed = true;
    row(gang.slots, kStartSlot)[lane] = disturbance->late().value;
  }
}

void Island::run(const Crossings& crossings) {
  crossings_ = &crossings;
  std::erase_if(waiting_, [&](const Arrival& arrival) {
    const std::uint32_t id = crossings.id(*arrival.op, arrival.stage, island_);
    if (!crossings.ended(id)) return false;
    Gang& gang = gangs_[static_cast<std::size_t>(arrival.stage)];
    std::ranges::copy(crossings.ends(id), row(gang.end, arrival.stream));
    land(gang, arrival.stream);
    return true;
  });
  run_queue();
}

bool Island::finished() const {
  for (const Gang& gang : gangs_)
    for (const std::uint32_t next : gang.next)
      if (next != kNone) return false;
  return true;
}

std::int64_t Island::start_of(const Gang& gang, const Step& step, std::size_t lane) const {
  const auto slot = [&](std::size_t k) { return gang.slots[step.slots[k] * width_ + lane]; };
  return std::max(std::max(gang.free[step.stream * width_ + lane], slot(2) + step.issue_delay),
                  std::max(slot(0), slot(1)));
}

void Island::post(Gang& gang, std::uint32_t at) {
  const Step& step = gang.program->steps[at];
  const SharedOp& op = gang.program->shared[step.detail];
  const std::uint8_t stream = step.stream;
  std::int64_t* const ready = row(gang.ready, stream);
  for (std::size_t lane = 0; lane < width_; ++lane) ready[lane] = start_of(gang, step, lane);
  const auto bit = static_cast<std::uint16_t>(1U << stream);
  gang.posted |= bit;
  gang.blocked |= bit;
  if (op.transfers == 0 && op.group == Group::tensor) return meet_on_the_wire(gang, stream, op);
  if (op.transfers == 0)
    return crossings_->takes(op, gang.stage, island_) ? cross(gang, stream, op)
                                                      : meet(gang, stream, op);
  std::copy_n(ready, width_, row(gang.end, stream));
  gang.open[stream] = static_cast<std::uint16_t>(op.transfers);
  for (std::uint32_t t = op.first_transfer; t < op.first_transfer + op.transfers; ++t) {
    const TransferEnd& side = gang.program->transfers[t];
    Gang& peer = gangs_[static_cast<std::size_t>(side.peer_stage)];
    const bool there = side.peer_step != kNone && peer.next[side.peer_stream] == side.peer_step &&
                       (peer.posted >> side.peer_stream & 1) != 0;
    const bool own = &peer == &gang && side.peer_step == at;  // its send does both sides
    if (there && (!own || side.sends))
      side.sends ? transfer(gang, t, {&gang, stream})
                 : transfer(peer, side.peer_transfer, {&gang, stream});
  }
  if (gang.open[stream] == 0) land(gang, stream);
}

Island::Side Island::sender(Gang& from, const TransferEnd& side) {
  return {&from, from.program->steps[from.program->step_of[side.instr]].stream};
}

Island::Side Island::receiver(const TransferEnd& side) {
  return {&gangs_[static_cast<std::size_t>(side.peer_stage)], side.peer_stream};
}

void Island::transfer(Gang& from, std::uint32_t at, const Side& posting) {
  const TransferEnd& side = from.program->transfers[at];
  const Side here = sender(from, side), there = receiver(side);
  const std::uint16_t* const routes =
      &routes_[(static_cast<std::size_t>(from.stage) * gangs_.size() +
                static_cast<std::size_t>(there.gang->stage)) *
               width_];
  const std::int64_t* const ready = row(from.ready, here.stream);
  const std::int64_t* const peer_ready = row(there.gang->ready, there.stream);
  std::int64_t* const ends = row(from.end, here.stream);
  std::int64_t* const peer_ends = row(there.gang->end, there.stream);
  std::size_t away = 0;
  for (std::size_t lane = 0; lane < width_; ++lane) {
    const std::int64_t start = std::max(ready[lane], peer_ready[lane]);
    std::int64_t end = 0;
    if (!scene_.flows.message(routes[lane])) {
      end = start + scene_.times.message(side.message, routes[lane]);
    } else if (end = transfer_ends_.of(island_, from.stage, at)[lane];
               end == TransferEnds::kUnknown) {
      const std::int64_t gathering = scene_.times.gathering(side.message);
      const std::int64_t alone = scene_.times.message(side.message, routes[lane]) - gathering;
      const std::int64_t leaves =
          start + gathering + scene_.flows.before_leaving(routes[lane], alone);
      departures_.push_back({leaves, island_, from.stage, static_cast<std::int32_t>(lane), at});
      ++away;
      continue;
    }
    ends[lane] = std::max(ends[lane], end);
    peer_ends[lane] = std::max(peer_ends[lane], end);
  }
  if (away > 0)
    on_the_way_[{from.stage, at}] = away;
  else
    end_transfer(from, at, posting);
}

bool Island::land(const Departure& departure, std::int64_t at) {
  if (departure.collective != nullptr) {
    transfer_ends_.of_collective(island_, departure.stage, departure.collective->sequence) = at;
    land_together(gangs_[static_cast<std::size_t>(departure.stage)], departure.stream, at);
    return true;
  }
  const auto lane = static_cast<std::size_t>(departure.lane);
  transfer_ends_.of(island_, departure.stage, departure.transfer)[lane] = at;
  Gang& from = gangs_[static_cast<std::size_t>(departure.stage)];
  const TransferEnd& side = from.program->transfers[departure.transfer];
  for (const auto& [gang, stream] : {sender(from, side), receiver(side)}) {
    std::int64_t& end = row(gang->end, stream)[lane];
    end = std::max(end, at);
  }
  const auto left = on_the_way_.find({departure.stage, departure.transfer});
  if (--left->second > 0) return false;
  on_the_way_.erase(left);
  end_transfer(from, departure.transfer, {});
  return true;
}

void Island::end_transfer(Gang& from, std::uint32_t at, const Side& posting) {
  const TransferEnd& side = from.program->transfers[at];
  const Side here = sender(from, side), there = receiver(side);
  const auto lanes = static_cast<std::int64_t>(width_);
  from.sent += side.bytes * lanes;
  there.gang->received += side.peer_bytes * lanes;
  --from.open[here.stream];
  --there.gang->open[there.stream];
  for (const Side& each : {here, there}) {
    if (each == posting || each.gang->open[each.stream] > 0) continue;
    land(*each.gang, each.stream);
    if (here == there) return;
  }
}

std::size_t Island::expected(Group group) const {
  if (group == Group::embedding) return std::min<std::size_t>(2, gangs_.size());
  const bool all = group == Group::pipeline || group == Group::model || group == Group::world;
  return all ? gangs_.size() : 1;
}

void Island::meet(Gang& gang, std::uint8_t stream, const SharedOp& op) {
  auto& meetings = meetings_[static_cast<std::size_t>(op.group)];
  const std::size_t members = expected(op.group);
  if (members > 1 && meetings.size() <= op.sequence) meetings.resize(op.sequence + 1);
  Meeting& meeting = members > 1 ? meetings[op.sequence] : alone_;
  const std::int64_t* const ready = row(gang.ready, stream);
  const bool across_lanes = spans_lanes(op.group);
  const std::int64_t latest = *std::max_element(ready, ready + width_);
  meeting.latest.resize(width_);
  for (std::size_t lane = 0; lane < width_; ++lane)
    meeting.latest[lane] = std::max(meeting.latest[lane], across_lanes ? latest : ready[lane]);
  meeting.members.emplace_back(gang.stage, stream);
  if (meeting.members.size() < members) return;
  const Meeting met = std::exchange(meeting, {});
  for (const auto& [stage, its_stream] : met.members) {
    Gang& member = gangs_[static_cast<std::size_t>(stage)];
    for (std::size_t lane = 0; lane < width_; ++lane) {
      const Coord coord = scene_.layout.coord(gang.stage, island_, static_cast<std::int32_t>(lane));
      row(member.end, its_stream)[lane] =
          met.latest[lane] +
          scene_.times.collective(op.collective, scene_.topology.shape(op.group, coord));
    }
    land(member, its_stream);
  }
}

// A collective of the gang's lanes, whose flows leave when the last of them has come.
void Island::meet_on_the_wire(Gang& gang, std::uint8_t stream, const SharedOp& op) {
  const std::int64_t* const ready = row(gang.ready, stream);
  const std::int64_t latest = *std::max_element(ready, ready + width_);
  if (!scene_.flows.collective(op.collective, gang.tensor_shape))
    return land_together(gang, stream,
                         latest + scene_.times.collective(op.collective, gang.tensor_shape));
  const std::int64_t end = transfer_ends_.of_collective(island_, gang.stage, op.sequence);
  if (end != TransferEnds::kUnknown) return land_together(gang, stream, end);
  departures_.push_back({latest, island_, gang.stage, 0, kNone, &op, stream});
}

void Island::land_together(Gang& gang, std::uint8_t stream, std::int64_t at) {
  std::fill_n(row(gang.end, stream), width_, at);
  land(gang, stream);
}

void Island::cross(Gang& gang, std::uint8_t stream, const SharedOp& op) {
  const std::uint32_t id = crossings_->id(op, gang.stage, island_);
  if (crossings_->ended(id)) {
    std::ranges::copy(crossings_->ends(id), row(gang.end, stream));
    return land(gang, stream);
  }
  const Arrival arrival{gang.stage, stream, &op};
  arrivals_.push_back(arrival);
  waiting_.push_back(arrival);
}

}  // namespace trainyard
