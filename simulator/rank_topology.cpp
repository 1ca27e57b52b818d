#include "simulator/rank_topology.h"

#include <algorithm>
#include <set>

#include "core/error.h"

namespace trainyard {
namespace {

// Index of `value` in `list`, appended if it is new. The lists stay short.
template <class T>
std::uint16_t intern(std::vector<T>& list, const T& value) {
  const auto at = std::find(list.begin(), list.end(), value) - list.begin();
  if (at == std::ssize(list)) list.push_back(value);
  return static_cast<std::uint16_t>(at);
}

}  // namespace

RankTopology::RankTopology(const Job& job, const ProgramSet& programs)
    : mesh_(job.mesh()), placement_(job.placement()), cluster_(job.cluster) {
  check(mesh_.size(Axis::expert) == 1, "the executor has no expert axis yet");
  std::set<Group> groups;
  std::set<std::int32_t> steps;
  for (const auto& program : programs.by_stage)
    for (const Instr& instr : program->code) {
      if (instr.op == Op::send) steps.insert(cyclic(instr.peer));
      if (instr.op == Op::recv) steps.insert(cyclic(-instr.peer));
      if (instr.op >= Op::all_gather && instr.op <= Op::broadcast) groups.insert(instr.group);
    }
  for (const Group group : groups) add_group(group, job.cluster);
  for (const std::int32_t step : steps) add_routes(step);
}

std::size_t RankTopology::instance(Group group, const Coord& coord) const {
  const auto t = static_cast<std::size_t>(coord[Axis::tensor]);
  const auto d = static_cast<std::size_t>(coord[Axis::data]);
  const auto replica = static_cast<std::size_t>(mesh_.replica(coord));
  const auto s = static_cast<std::size_t>(coord[Axis::pipeline]);
  const auto tensor = static_cast<std::size_t>(mesh_.size(Axis::tensor));
  switch (group) {
    case Group::tensor:
      return s * static_cast<std::size_t>(mesh_.replicas()) + replica;
    case Group::context:
      return (s * static_cast<std::size_t>(mesh_.size(Axis::data)) + d) * tensor + t;
    case Group::data:
      return s * tensor + t;
    case Group::pipeline:
    case Group::embedding:
      return replica * tensor + t;
    case Group::model:
      return replica;
    default:
      return 0;
  }
}

void RankTopology::add_group(Group group, const Cluster& cluster) {
  auto& shapes = shape_of_[static_cast<std::size_t>(group)];
  constexpr std::uint16_t kUnset = UINT16_MAX;
  for (std::int32_t r = 0; r < mesh_.size(); ++r) {
    const Coord coord = mesh_.coord(RankId(r));
    const std::size_t at = instance(group, coord);
    if (at >= shapes.size()) shapes.resize(at + 1, kUnset);
    if (shapes[at] != kUnset) continue;
    Coord member = coord;
    if (group == Group::embedding) member[Axis::pipeline] = 0;
    shapes[at] = intern(shapes_, mesh_.size(group) == 1 ? GroupShape{}
                                                        : group_shape(mesh_, placement_, cluster,
                                                                      group, mesh_.rank(member)));
  }
}

std::int32_t RankTopology::cyclic(std::int32_t steps) const {
  const std::int32_t stages = mesh_.size(Axis::pipeline);
  return ((steps % stages) + stages) % stages;
}

void RankTopology::add_routes(std::int32_t steps) {
  const auto ranks = static_cast<std::size_t>(mesh_.size());
  std::vector<std::int32_t> leaving;  // of each node
  std::vector<bool> leaves(ranks);
  std::vector<Tier> tiers(ranks);
  const Topology topology(cluster_);
  for (std::size_t r = 0; r < ranks; ++r) {
    const RankId rank{static_cast<std::int32_t>(r)};
    const auto node = static_cast<std::size_t>(placement_.node(rank));
    if (node >= leaving.size()) leaving.resize(node + 1);
    const RankId peer = mesh_.neighbour(rank, Axis::pipeline, steps);
    leaves[r] = placement_.node(peer) != placement_.node(rank);
    tiers[r] = topology.tier(placement_.node(rank), placement_.node(peer));
    if (leaves[r]) ++leaving[node];
  }
  auto& routes = route_of_[steps];
  routes.resize(ranks);
  for (std::size_t r = 0; r < ranks; ++r) {
    const auto node =
        static_cast<std::size_t>(placement_.node(RankId(static_cast<std::int32_t>(r))));
    routes[r] = intern(routes_, leaves[r] ? Route{tiers[r], leaving[node]} : Route{});
  }
}

std::uint32_t RankTopology::shape(Group group, const Coord& coord) const {
  const auto& shapes = shape_of_[static_cast<std::size_t>(group)];
  return shapes.empty() ? 0 : shapes[instance(group, coord)];
}

std::uint32_t RankTopology::route(RankId sender, std::int32_t steps) const {
  const auto found = route_of_.find(cyclic(steps));
  return found == route_of_.end() ? 0 : found->second[static_cast<std::size_t>(index(sender))];
}

}  // namespace trainyard
