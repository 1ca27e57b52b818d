#pragma once
#include <cstdint>
#include <vector>

#include "core/mesh/mesh.h"
#include "simulator/disturbance.h"
#include "simulator/rank_topology.h"

namespace trainyard {

// Which ranks are simulated. A lane is one rank, or stands for several that are proven to behave
// alike; the lanes of one tensor group form a gang, the gangs of one replica of the model (a data
// and a context coordinate) an island.
struct Layout {
  Mesh mesh;
  std::int32_t stages = 1;
  std::int32_t lanes = 1;                // a gang
  std::vector<std::int32_t> replicas;    // Mesh::replica() of those simulated, rising
  std::vector<std::int64_t> stands_for;  // ranks that a lane of each replica stands for
  std::vector<std::int32_t> replica_of;  // index in `replicas` of each replica

  std::int32_t islands() const { return static_cast<std::int32_t>(replicas.size()); }
  // Whether two islands share sequences; those that do are neighbours.
  bool share(std::int32_t a, std::int32_t b) const { return data_of(a) == data_of(b); }
  // Data coordinate of an island.
  std::int32_t data_of(std::int32_t island) const {
    return replicas[static_cast<std::size_t>(island)] / mesh.size(Axis::context);
  }
  Coord coord(std::int32_t stage, std::int32_t island, std::int32_t lane) const;
  RankId rank(std::int32_t stage, std::int32_t island, std::int32_t lane) const {
    return mesh.rank(coord(stage, island, lane));
  }
};

// Every rank its own lane, or as few lanes as can be proven enough: tensor coordinates are folded
// when no rank is disturbed and their groups and routes are alike, replicas when all of that is
// alike between them and between those that they share sequences with.
Layout make_layout(const RankTopology& topology, const Disturbances& disturbances, bool fold);

}  // namespace trainyard
