#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <queue>
#include <span>
#include <unordered_map>
#include <vector>

#include "core/config/job.h"
#include "network_models/network_model.h"
#include "simulator/collective_flows.h"
#include "simulator/costs.h"
#include "simulator/flow_ends.h"
#include "simulator/link_events.h"
#include "simulator/scene.h"

namespace trainyard {

// A departure whose flow has ended, or one lane of a crossing whose flows have.
struct Landing {
  Departure departure;
  std::uint32_t crossing = kNone;
  std::int64_t at = 0;  // ns
};

// What islands put on a network whose flows meet. Everything that waits to leave is known when no
// island can go on, and what leaves later leaves after something has landed (lanes of a gang go on
// together, when the last of them has what it needs); so the network is driven from one start or
// end to the next, in the order of time.
class Traffic {
 public:
  Traffic(const Job& job, const Scene& scene, const Costs& costs);

  void add(const Departure& departure);
  // A collective that all have reached, as one of them sees it.
  struct Met {
    const SharedOp* op = nullptr;  // null: none
    std::uint32_t crossing = kNone;
    std::int32_t stage = 0, island = 0;
  };
  // Its flows leave at `ready`: those of each lane, or of all lanes together.
  void add_collective(const Met& met, std::span<const std::int64_t> ready);
  // Goes to where the next flows end. False: nothing is on the way, or the network has failed.
  bool advance(std::vector<Landing>& landed);
  std::optional<NetworkUse> use(Time whole) const { return network_->use(whole); }
  std::optional<NetworkFailure> failure() const { return network_->failure(); }

 private:
  struct Moving {
    Departure departure;
    std::uint32_t crossing = kNone;
    std::int32_t flows = 0;  // still to end
    OnWire wire;             // of a collective
  };
  struct Start {
    std::int64_t at = 0, order = 0;
    std::uint32_t moving = 0;
    bool operator>(const Start& o) const { return at != o.at ? at > o.at : order > o.order; }
  };

  void add(const Departure& departure, std::uint32_t crossing);
  void start(std::uint32_t moving);
  void start_collective(std::uint32_t moving);
  void send(std::uint32_t moving, std::span<const Flow> flows);
  Landing landing(const Moving& moving, std::int64_t at) const;

  const Scene& scene_;
  const Costs& costs_;
  CollectiveFlows collectives_;
  std::unique_ptr<NetworkModel> network_;
  std::priority_queue<Start, std::vector<Start>, std::greater<>> waiting_;
  std::vector<Moving> moving_;  // and waiting
  std::vector<std::uint32_t> free_;
  std::unordered_map<std::int64_t, std::uint32_t> moving_of_;  // by flow
  std::vector<FlowEnd> ended_;
  std::vector<LinkEvent> events_;
  std::size_t happened_ = 0;
  std::int64_t added_ = 0, reached_ = 0;  // reached: the network's present, ns
};

}  // namespace trainyard
