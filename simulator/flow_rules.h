#pragma once
#include <algorithm>
#include <cstdint>
#include <vector>

#include "simulator/communication.h"
#include "simulator/costs.h"
#include "simulator/rank_topology.h"

namespace trainyard {

// What travels as flows, on a network where flows meet: messages between nodes, and collectives
// whose members are on several, unless their times were measured or scaled.
class FlowRules {
 public:
  FlowRules(const Job& job, const CommunicationSpecs& specs, const RankTopology& topology,
            const Costs& costs, const CostScale& scale);
  bool any() const { return any_; }
  bool message(std::uint32_t route) const { return any_ && overhead_[route] >= 0; }
  // ns before a message leaves that takes `alone` on an idle network: all but its time on the wire,
  // which is what contention and faults lengthen.
  std::int64_t before_leaving(std::uint32_t route, std::int64_t alone) const {
    const auto wire = static_cast<double>(alone - overhead_[route]) * on_wire_;
    return std::max(overhead_[route], alone - static_cast<std::int64_t>(wire));
  }
  Wiring wiring(std::uint32_t spec, std::uint32_t shape) const {
    return any_ ? wirings_[spec * shapes_ + shape] : Wiring::none;
  }
  bool collective(std::uint32_t spec, std::uint32_t shape) const {
    return wiring(spec, shape) != Wiring::none;
  }
  // Whether the tensor collective is flows between nodes in some group of the stage.
  bool tensor(std::uint32_t spec, std::int32_t stage, const RankTopology& topology) const;

 private:
  bool any_;
  std::size_t shapes_;
  std::vector<std::int64_t> overhead_;  // of each route; -1: no flow
  double on_wire_ = 1;                  // of a message's time after that
  std::vector<Wiring> wirings_;         // [spec][shape]
};

}  // namespace trainyard
