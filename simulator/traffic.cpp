#include "simulator/traffic.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>

#include "network_models/network_models.h"

namespace trainyard {

Traffic::Traffic(const Job& job, const Scene& scene, const Costs& costs)
    : scene_(scene),
      costs_(costs),
      node_(job.cluster.node),
      network_(make_network_model(job)),
      events_(link_events(job)) {}

// A gang goes on when a transfer has landed on all its lanes. What an early lane would have sent
// before that has a time in the network's past; it leaves at the present, when the last lane's
// landed. So no lane leaves later than the last one can, and lanes meet again in the next layer's
// tensor collective; what is lost is that early lanes' messages might have met fewer others.
void Traffic::add(const Departure& departure) { add(departure, kNone); }

void Traffic::add_rings(const Rings& rings, std::span<const std::int64_t> ready) {
  for (std::size_t lane = 0; lane < ready.size(); ++lane)
    add({ready[lane], rings.island, rings.stage, static_cast<std::int32_t>(lane), kNone, rings.op,
         0},
        rings.crossing);
}

void Traffic::add(const Departure& departure, std::uint32_t crossing) {
  auto at = static_cast<std::uint32_t>(moving_.size());
  if (free_.empty()) {
    moving_.emplace_back();
  } else {
    at = free_.back();
    free_.pop_back();
  }
  moving_[at] = {departure, crossing, 0};
  waiting_.push({std::max(departure.at, reached_), added_++, at});
}

void Traffic::start(std::uint32_t moving) {
  const Departure& of = moving_[moving].departure;
  if (of.rings != nullptr) return start_rings(moving);
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

// Each card of the members' GPUs carries a ring of its own through the nodes, as NCCL's channels.
void Traffic::start_rings(std::uint32_t moving) {
  const Departure& of = moving_[moving].departure;
  const CollectiveSpec& spec = scene_.specs.collectives[of.rings->collective];
  const Mesh& mesh = scene_.topology.mesh();
  const auto members =
      mesh.members(of.rings->group, scene_.layout.rank(of.stage, of.island, of.lane));
  std::map<NodeId, std::vector<RankId>> by_node;
  for (const RankId rank : members) by_node[scene_.topology.placement().node(rank)].push_back(rank);
  std::vector<const std::vector<RankId>*> nodes;
  for (const auto& [node, ranks] : by_node) nodes.push_back(&ranks);
  const auto cards = static_cast<std::size_t>(std::max(1, node_.nics / node_.gpus));
  const std::size_t rings = nodes.front()->size() * cards;
  const Bytes all = ring_bytes(spec.op, std::ssize(members), spec.bytes);
  const Bytes bytes = all / static_cast<std::int64_t>(rings);
  std::vector<Flow> edges(nodes.size());
  for (std::size_t ring = 0; ring < rings; ++ring) {
    const auto member = [&](std::size_t i) {
      const std::vector<RankId>& ranks = *nodes[i % nodes.size()];
      return ranks[ring / cards % ranks.size()];
    };
    const auto channel = static_cast<std::uint32_t>(ring % cards);
    for (std::size_t i = 0; i < nodes.size(); ++i)
      edges[i] = {member(i), member(i + 1), bytes, channel};
    send(moving, edges);
  }
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

// A ring's steps and protocol take their time beside its bytes'.
Landing Traffic::landing(const Moving& moving, std::int64_t at) const {
  const Departure& of = moving.departure;
  if (of.rings == nullptr) return {of, kNone, at};
  const CollectiveSpec& spec = scene_.specs.collectives[of.rings->collective];
  const Coord coord = scene_.layout.coord(of.stage, of.island, of.lane);
  const GroupShape& shape = scene_.topology.shapes()[scene_.topology.shape(of.rings->group, coord)];
  const Time time = costs_.ring(spec.op, shape, spec.bytes, nanoseconds(at - of.at));
  return {of, moving.crossing, std::max(at, of.at + time.value)};
}

}  // namespace trainyard
