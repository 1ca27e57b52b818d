#pragma once
#include <cstdint>
#include <vector>

#include "core/mesh/mesh.h"
#include "simulator/disturbance.h"
#include "simulator/rank_topology.h"

namespace trainyard {

// Which ranks are simulated. A lane is one rank, or stands for several that are proven to behave
// alike; the lanes of one tensor group form a gang, the gangs of one data coordinate (a replica)
// an island.
struct Layout {
  Mesh mesh;
  std::int32_t stages = 1;
  std::int32_t lanes = 1;                // a gang
  std::vector<std::int32_t> replicas;    // data coordinates simulated, rising
  std::vector<std::int64_t> stands_for;  // ranks that a lane of each replica stands for
  std::vector<std::int32_t> replica_of;  // index in `replicas` of each data coordinate

  std::int32_t islands() const { return static_cast<std::int32_t>(replicas.size()); }
  Coord coord(std::int32_t stage, std::int32_t island, std::int32_t lane) const;
  RankId rank(std::int32_t stage, std::int32_t island, std::int32_t lane) const {
    return mesh.rank(coord(stage, island, lane));
  }
};

// Every rank its own lane, or as few lanes as can be proven enough: tensor coordinates are folded
// when no rank is disturbed and their groups and routes are alike, data coordinates when all of
// that is alike between them.
Layout make_layout(const RankTopology& topology, const Disturbances& disturbances, bool fold);

}  // namespace trainyard
