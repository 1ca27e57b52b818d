#include <algorithm>
#include <vector>

#include "core/error.h"
#include "simulator/timing.h"

namespace trainyard {
namespace {

template <class T>
std::int32_t count_distinct(std::vector<T> values) {
  std::ranges::sort(values);
  return static_cast<std::int32_t>(std::ranges::unique(values).begin() - values.begin());
}

}  // namespace

GroupShape group_shape(const Mesh& mesh, const Placement& placement, const Cluster& cluster,
                       Group group, RankId member) {
  const Topology topology(cluster);
  std::vector<NodeId> nodes;
  std::vector<std::int64_t> tor_sets, pods;
  for (const RankId rank : mesh.members(group, member)) {
    nodes.push_back(placement.node(rank));
    tor_sets.push_back(topology.tor_set(nodes.back()));
    pods.push_back(topology.pod(nodes.back()));
  }
  GroupShape shape;
  shape.ranks = static_cast<std::int32_t>(nodes.size());
  check(shape.ranks > 0, "rank {} has no group", index(member));
  shape.nodes = count_distinct(nodes);
  shape.tor_span = count_distinct(std::move(tor_sets));
  shape.pod_span = count_distinct(std::move(pods));
  if (shape.nodes > 1) {
    const auto on_my_node = std::ranges::count(nodes, placement.node(member));
    const std::int32_t used = std::min(placement.gpus_per_node, mesh.size());
    shape.concurrent_per_node = std::max(1, used / static_cast<std::int32_t>(on_my_node));
  }
  return shape;
}

}  // namespace trainyard
