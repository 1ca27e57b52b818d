#pragma once
#include <vector>

#include "simulator/communication.h"
#include "simulator/compile.h"
#include "simulator/costs.h"
#include "simulator/disturbance.h"
#include "simulator/flow_rules.h"
#include "simulator/layout.h"
#include "simulator/rank_topology.h"
#include "simulator/simulation.h"

namespace trainyard {

// Everything about a run that does not change while it runs.
struct Scene {
  Scene(const Job& job, const ProgramSet& programs, const SimulationOptions& options,
        const Costs& costs);
  Scene(const Scene&) = delete;
  Scene& operator=(const Scene&) = delete;

  RankTopology topology;
  Disturbances disturbances;
  CommunicationSpecs specs;
  CommunicationTimes times;
  FlowRules flows;
  Layout layout;  // not folded if there are flows: each has a path of its own
  std::vector<CompiledProgram> programs;  // by stage
  double contention;                      // time of a GEMM beside a collective, relative
  double slowest_gpu;                     // time of a kernel relative to the mean GPU's
  // What the ranks' own work takes, [rank][step], where they share a node's cores; else empty.
  std::vector<std::vector<std::int64_t>> on_shared_cores;

  const CompiledProgram& program(std::int32_t stage) const {
    return programs[static_cast<std::size_t>(stage)];
  }
};

}  // namespace trainyard
