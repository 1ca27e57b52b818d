#include "simulator/layout.h"

#include <algorithm>
#include <map>

namespace trainyard {
namespace {

Coord at(const Mesh& mesh, std::int32_t tensor, std::int32_t replica, std::int32_t stage) {
  Coord coord;
  coord[Axis::tensor] = tensor;
  coord[Axis::data] = replica / mesh.size(Axis::context);
  coord[Axis::context] = replica % mesh.size(Axis::context);
  coord[Axis::pipeline] = stage;
  return coord;
}

// All that the times of one rank depend on, besides its program and those it meets.
void append_key(const RankTopology& topology, const Coord& coord, std::vector<std::uint32_t>& key) {
  for (const Group group :
       {Group::tensor, Group::context, Group::pipeline, Group::embedding, Group::model})
    key.push_back(topology.shape(group, coord));
  const RankId rank = topology.mesh().rank(coord);
  for (std::int32_t steps = 0; steps < topology.mesh().size(Axis::pipeline); ++steps)
    key.push_back(topology.route(rank, steps));
}

bool lanes_alike(const RankTopology& topology, std::int32_t replica) {
  const Mesh& mesh = topology.mesh();
  for (std::int32_t s = 0; s < mesh.size(Axis::pipeline); ++s) {
    std::vector<std::uint32_t> first;
    for (std::int32_t t = 0; t < mesh.size(Axis::tensor); ++t) {
      std::vector<std::uint32_t> key{topology.shape(Group::data, at(mesh, t, replica, s))};
      append_key(topology, at(mesh, t, replica, s), key);
      if (t == 0) first = key;
      if (key != first) return false;
    }
  }
  return true;
}

// Equal for replicas that behave alike but for those they share sequences with; a disturbed one is
// like no other.
std::vector<std::uint32_t> replica_key(const RankTopology& topology,
                                       const Disturbances& disturbances, std::int32_t replica) {
  const Mesh& mesh = topology.mesh();
  std::vector<std::uint32_t> key;
  for (std::int32_t s = 0; s < mesh.size(Axis::pipeline); ++s)
    for (std::int32_t t = 0; t < mesh.size(Axis::tensor); ++t) {
      const Coord coord = at(mesh, t, replica, s);
      if (disturbances.of(mesh.rank(coord)) != nullptr)
        return {static_cast<std::uint32_t>(replica)};
      append_key(topology, coord, key);
    }
  return key;
}

// Equal for replicas that behave alike: those of one data coordinate meet each other in attention,
// so they are alike only if all of them are, or each with the one at its place.
std::vector<std::vector<std::uint32_t>> fold_key(const std::vector<std::vector<std::uint32_t>>& own,
                                                 std::size_t replica, std::size_t context) {
  const auto first = own.begin() + static_cast<std::ptrdiff_t>(replica / context * context);
  std::vector<std::vector<std::uint32_t>> key(first, first + static_cast<std::ptrdiff_t>(context));
  if (std::ranges::count(key, key.front()) < std::ssize(key))
    key.push_back({static_cast<std::uint32_t>(replica % context)});
  return key;
}

}  // namespace

Coord Layout::coord(std::int32_t stage, std::int32_t island, std::int32_t lane) const {
  return at(mesh, lane, replicas[static_cast<std::size_t>(island)], stage);
}

Layout make_layout(const RankTopology& topology, const Disturbances& disturbances, bool fold) {
  Layout layout;
  layout.mesh = topology.mesh();
  layout.stages = layout.mesh.size(Axis::pipeline);
  const std::int32_t tensor = layout.mesh.size(Axis::tensor);
  const auto context = static_cast<std::size_t>(layout.mesh.size(Axis::context));
  std::vector<std::vector<std::uint32_t>> own;
  for (std::int32_t r = 0; fold && r < layout.mesh.replicas(); ++r)
    own.push_back(replica_key(topology, disturbances, r));
  std::map<std::vector<std::vector<std::uint32_t>>, std::int32_t> known;
  for (std::int32_t r = 0; r < layout.mesh.replicas(); ++r) {
    std::int32_t island = layout.islands();
    if (fold)
      island = known.try_emplace(fold_key(own, static_cast<std::size_t>(r), context), island)
                   .first->second;
    layout.replica_of.push_back(island);
    if (island == layout.islands()) {
      layout.replicas.push_back(r);
      layout.stands_for.push_back(0);
    }
    ++layout.stands_for[static_cast<std::size_t>(island)];
  }
  bool alike = fold && !disturbances.any();
  for (const std::int32_t r : layout.replicas) alike = alike && lanes_alike(topology, r);
  layout.lanes = alike ? 1 : tensor;
  if (alike)
    for (std::int64_t& ranks : layout.stands_for) ranks *= tensor;
  return layout;
}

}  // namespace trainyard
