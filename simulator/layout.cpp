#include "simulator/layout.h"

#include <map>

namespace trainyard {
namespace {

Coord at(std::int32_t tensor, std::int32_t data, std::int32_t stage) {
  Coord coord;
  coord[Axis::tensor] = tensor;
  coord[Axis::data] = data;
  coord[Axis::pipeline] = stage;
  return coord;
}

// All that the times of one rank depend on, besides its program and those it meets.
void append_key(const RankTopology& topology, const Coord& coord, std::vector<std::uint32_t>& key) {
  for (const Group group : {Group::tensor, Group::pipeline, Group::embedding, Group::model})
    key.push_back(topology.shape(group, coord));
  const RankId rank = topology.mesh().rank(coord);
  for (std::int32_t steps = 0; steps < topology.mesh().size(Axis::pipeline); ++steps)
    key.push_back(topology.route(rank, steps));
}

bool lanes_alike(const RankTopology& topology, std::int32_t data) {
  const Mesh& mesh = topology.mesh();
  for (std::int32_t s = 0; s < mesh.size(Axis::pipeline); ++s) {
    std::vector<std::uint32_t> first;
    for (std::int32_t t = 0; t < mesh.size(Axis::tensor); ++t) {
      std::vector<std::uint32_t> key{topology.shape(Group::data, at(t, data, s))};
      append_key(topology, at(t, data, s), key);
      if (t == 0) first = key;
      if (key != first) return false;
    }
  }
  return true;
}

// Equal for data coordinates that behave alike; a disturbed one is like no other.
std::vector<std::uint32_t> replica_key(const RankTopology& topology,
                                       const Disturbances& disturbances, std::int32_t data) {
  const Mesh& mesh = topology.mesh();
  std::vector<std::uint32_t> key;
  for (std::int32_t s = 0; s < mesh.size(Axis::pipeline); ++s)
    for (std::int32_t t = 0; t < mesh.size(Axis::tensor); ++t) {
      const Coord coord = at(t, data, s);
      if (disturbances.of(mesh.rank(coord)) != nullptr) return {static_cast<std::uint32_t>(data)};
      append_key(topology, coord, key);
    }
  return key;
}

}  // namespace

Coord Layout::coord(std::int32_t stage, std::int32_t island, std::int32_t lane) const {
  return at(lane, replicas[static_cast<std::size_t>(island)], stage);
}

Layout make_layout(const RankTopology& topology, const Disturbances& disturbances, bool fold) {
  Layout layout;
  layout.mesh = topology.mesh();
  layout.stages = layout.mesh.size(Axis::pipeline);
  const std::int32_t tensor = layout.mesh.size(Axis::tensor);
  std::map<std::vector<std::uint32_t>, std::int32_t> known;
  for (std::int32_t d = 0; d < layout.mesh.size(Axis::data); ++d) {
    std::int32_t replica = layout.islands();
    if (fold)
      replica = known.try_emplace(replica_key(topology, disturbances, d), replica).first->second;
    layout.replica_of.push_back(replica);
    if (replica == layout.islands()) {
      layout.replicas.push_back(d);
      layout.stands_for.push_back(0);
    }
    ++layout.stands_for[static_cast<std::size_t>(replica)];
  }
  bool alike = fold && !disturbances.any();
  for (const std::int32_t d : layout.replicas) alike = alike && lanes_alike(topology, d);
  layout.lanes = alike ? 1 : tensor;
  if (alike)
    for (std::int64_t& ranks : layout.stands_for) ranks *= tensor;
  return layout;
}

}  // namespace trainyard
