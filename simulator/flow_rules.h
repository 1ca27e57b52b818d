#pragma once
#include <cstdint>
#include <vector>

#include "simulator/communication.h"
#include "simulator/costs.h"
#include "simulator/rank_topology.h"

namespace trainyard {

// What travels as flows, on a network where flows meet: messages between nodes, rings over the data
// axis, of tied embeddings and of tensor groups on several nodes, unless their times were measured
// or scaled.
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
  // Whether the tensor collective is a ring between nodes in some group of the stage.
  bool tensor_ring(std::uint32_t spec, std::int32_t stage, const RankTopology& topology) const;

 private:
  bool any_;
  std::size_t shapes_;
  std::vector<std::int64_t> overhead_;  // of each route; -1: no flow
  std::vector<bool> rings_;             // [spec][shape]
};

}  // namespace trainyard
