#pragma once
#include <array>
#include <cstdint>
#include <map>
#include <vector>

#include "core/config/job.h"
#include "core/program/program.h"
#include "simulator/costs.h"

namespace trainyard {

// Where one group or pipeline neighbour differs from another, as far as its time depends on it:
// the distinct group shapes and routes of a job, and which group and rank has which.
class RankTopology {
 public:
  RankTopology(const Job& job, const ProgramSet& programs);

  const Mesh& mesh() const { return mesh_; }
  const Placement& placement() const { return placement_; }
  // Index in shapes() of the group that the rank at `coord` belongs to.
  std::uint32_t shape(Group group, const Coord& coord) const;
  // Index in routes() of a message from `sender` to the stage `steps` away along the pipeline.
  std::uint32_t route(RankId sender, std::int32_t steps) const;
  const std::vector<GroupShape>& shapes() const { return shapes_; }
  const std::vector<Route>& routes() const { return routes_; }

 private:
  std::size_t instance(Group group, const Coord& coord) const;
  void add_group(Group group, const Cluster& cluster);
  void add_routes(std::int32_t steps);
  std::int32_t cyclic(std::int32_t steps) const;

  Mesh mesh_;
  Placement placement_;
  Cluster cluster_;
  std::vector<GroupShape> shapes_{GroupShape{}};
  std::vector<Route> routes_{Route{}};
  std::array<std::vector<std::uint16_t>, kGroups> shape_of_;     // by group instance
  std::map<std::int32_t, std::vector<std::uint16_t>> route_of_;  // by steps, then sender
};

}  // namespace trainyard
