#include "simulator/traffic.h"

#include <algorithm>
#include <functional>

#include "network_models/network_models.h"

namespace trainyard {

Traffic::Traffic(const Job& job, const Scene& scene, const Costs& costs)
    : scene_(scene),
      costs_(costs),
      collectives_(job, scene),
      network_(make_network_model(job)),
      events_(link_events(job)) {}

// A gang goes on when a transfer has landed on all its lanes. What an early lane would have sent
// before that has a time in the network's past; it leaves at the present, when the last lane's
// landed. So no lane leaves later than the last one can, and lanes meet again in the next layer's
// tensor collective; what is lost is that early lanes' messages might have met fewer others.
void Traffic::add(const Departure& departure) { add(departure, kNone); }

void Traffic::add_collective(const Met& met, std::span<const std::int64_t> ready) {
  const std::size_t lanes = spans_lanes(met.op->group) ? 1 : ready.size();
  for (std::size_t lane = 0; lane < lanes; ++lane)
    add({ready[lane], met.island, met.stage, static_cast<std::int32_t>(lane), kNone, met.op, 0},
        met.crossing);
}

void Traffic::add(const Departure& departure, std::uint32_t crossing) {
  auto at = static_cast<std::uint32_t>(moving_.size());
  if (free_.empty()) {
    moving_.emplace_back();
  } else {
    at = free_.back();
    free_.pop_back();
  }
  moving_[at] = {departure, crossing, 0, {}};
  waiting_.push({std::max(departure.at, reached_), added_++, at});
}

void Traffic::start(std::uint32_t moving) {
  const Departure& of = moving_[moving].departure;
  if (of.collective != nullptr) return start_collective(moving);
  const TransferEnd& side = scene_.program(of.stage).transfers[of.transfer];
  const Flow flow{scene_.layout.rank(of.stage, of.island, of.lane),
                  scene_.layout.rank(side.peer_stage, of.island, of.lane), side.bytes};
  send(moving, {&flow, 1});
}

void Traffic::send(std::uint32_t moving, std::span<const Flow> flows) {
  const FlowId flow = network_->start_in_step(flows, nanoseconds(moving_[moving].departure.at));
  moving_of_[index(flow)] = moving;
  ++moving_[moving].flows;
}

void Traffic::start_collective(std::uint32_t moving) {
  const Departure of = moving_[moving].departure;
  const auto groups =
      collectives_.make(*of.collective, scene_.layout.rank(of.stage, of.island, of.lane));
  moving_[moving].wire = collectives_.lie();
  for (const std::vector<Flow>& in_step : groups) send(moving, in_step);
}

bool Traffic::advance(std::vector<Landing>& landed) {
  while (landed.empty()) {
    std::int64_t next = waiting_.empty() ? kNever.value : std::max(waiting_.top().at, reached_);
    // What happens to links when all is done is nobody's concern.
    const bool idle = waiting_.empty() && moving_of_.empty();
    const bool event = !idle && happened_ < events_.size() && events_[happened_].at.value <= next;
    if (event) next = events_[happened_].at.value;
    ended_.clear();
    const Time reached = network_->advance(nanoseconds(next), ended_);
    if (reached < kNever) reached_ = reached.value;
    if (network_->failure()) return false;
    for (const FlowEnd& end : ended_) {
      const auto found = moving_of_.find(index(end.flow));
      Moving& moving = moving_[found->second];
      if (--moving.flows == 0) {
        landed.push_back(landing(moving, end.at.value));
        free_.push_back(found->second);
      }
      moving_of_.erase(found);
    }
    if (!ended_.empty()) continue;
    if (event) {
      happen(events_[happened_++], *network_);
      continue;
    }
    if (waiting_.empty()) return false;
    for (; !waiting_.empty() && waiting_.top().at <= next; waiting_.pop()) {
      const std::uint32_t leaving = waiting_.top().moving;
      moving_[leaving].departure.at = next;
      start(leaving);
    }
  }
  return true;
}

// A collective's steps and protocol take their time beside its bytes'.
Landing Traffic::landing(const Moving& moving, std::int64_t at) const {
  const Departure& of = moving.departure;
  if (of.collective == nullptr) return {of, kNone, at};
  const CollectiveSpec& spec = scene_.specs.collectives[of.collective->collective];
  const Coord coord = scene_.layout.coord(of.stage, of.island, of.lane);
  const GroupShape& shape =
      scene_.topology.shapes()[scene_.topology.shape(of.collective->group, coord)];
  OnWire wire = moving.wire;
  wire.time = nanoseconds(at - of.at);
  const Time time = costs_.over_flows(spec.op, shape, spec.bytes, wire);
  return {of, moving.crossing, std::max(at, of.at + time.value)};
}

}  // namespace trainyard
