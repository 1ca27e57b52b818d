#pragma once
#include <span>
#include <vector>

#include "core/config/job.h"
#include "network_models/network_model.h"
#include "network_models/topology.h"
#include "simulator/costs.h"
#include "simulator/scene.h"
#include "simulator/wiring.h"

namespace trainyard {

// The flows between nodes of a collective, as NCCL's channels lie: each card of the members' GPUs
// carries a ring of its own, or two trees.
class CollectiveFlows {
 public:
  CollectiveFlows(const Job& job, const Scene& scene);

  // Of the group that `member` belongs to. Each element is the ring or the trees of a card, which
  // move in step; they last until the next call.
  std::span<const std::vector<Flow>> make(const SharedOp& op, RankId member);
  // How those made last lie; their time is still to come.
  const OnWire& lie() const { return lie_; }

 private:
  struct Channel {
    std::size_t card = 0;  // of all the members' on a node
    bool second_tree = false;
    Bytes bytes;  // that each edge carries
  };

  std::vector<Channel> channels(const CollectiveSpec& spec, Wiring wiring, std::size_t cards,
                                std::int64_t members) const;
  void measure(const WireEdges& edges, const std::vector<NodeId>& nodes);

  const Scene& scene_;
  Topology topology_;
  std::size_t cards_of_a_gpu_;
  std::vector<std::vector<Flow>> made_;
  OnWire lie_;
};

}  // namespace trainyard
