#pragma once
#include <vector>

#include "simulator/communication.h"
#include "simulator/compile.h"
#include "simulator/costs.h"
#include "simulator/disturbance.h"
#include "simulator/layout.h"
#include "simulator/rank_topology.h"
#include "simulator/simulation.h"

namespace trainyard {

// What travels as flows, on a network where flows meet: messages between nodes, data-parallel rings
// and those of tied embeddings, unless their times were measured or scaled.
class FlowRules {
 public:
  FlowRules(const Job& job, const CommunicationSpecs& specs, const RankTopology& topology,
            const Costs& costs, const CostScale& scale);
  bool any() const { return any_; }
  bool message(std::uint32_t route) const { return any_ && overhead_[route] >= 0; }
  std::int64_t overhead(std::uint32_t route) const { return overhead_[route]; }  // ns
  bool ring(std::uint32_t spec, std::uint32_t shape) const {
    return any_ && rings_[spec * shapes_ + shape];
  }

 private:
  bool any_;
  std::size_t shapes_;
  std::vector<std::int64_t> overhead_;  // of each route; -1: no flow
  std::vector<bool> rings_;             // [spec][shape]
};

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
