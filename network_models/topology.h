#pragma once
#include <cstdint>

#include "core/config/job.h"
#include "network_models/collisions.h"

namespace trainyard {

// Ports that an aggregation switch has into the core tier: as many as it has below, less what
// oversubscription leaves out.
std::int32_t core_ports(const FabricProfile& fabric);

enum class Tier : std::uint8_t { node, tor, pod, core };  // the highest a path climbs

// Flows that climb above the ToR switches at one moment: how many of a node's leave its ToR set,
// and its pod, and how many sets and pods they pass one after the other (a ring passes several).
struct Crossing {
  double tor_flows = 0, core_flows = 0;
  std::int64_t tor_spans = 1, pod_spans = 1;
  std::int64_t qps = 1;
};

// Where nodes sit below the switches, as far as closed forms need it: nodes fill ToR sets in
// order, ToR sets fill pods in order.
class Topology {
 public:
  explicit Topology(const Cluster& cluster);

  std::int64_t tor_set(NodeId node) const { return index(node) / nodes_per_tor_; }
  std::int64_t pod(NodeId node) const { return index(node) / nodes_per_pod_; }
  Tier tier(NodeId a, NodeId b) const;
  // NIC to NIC, queues empty: 1, 3 or 5 switches.
  Time latency(Tier tier) const;
  // What one node's flows of a moment get of its NICs together, payload bytes per second.
  Bandwidth node_bandwidth() const;
  // Expected ECMP rate when all nodes send such flows.
  ExpectedRate rate(const Crossing& crossing) const;
  // One message between two ranks whose path climbs to `tier`, while `concurrent` such messages
  // leave the node: latency + bytes / rate. `qps` > 0 charges the collisions ECMP is expected to
  // have with that many queue pairs.
  Time message(Bytes bytes, Tier tier, std::int32_t concurrent, std::int64_t qps) const;

 private:
  NodeProfile node_;
  FabricProfile fabric_;
  std::int64_t nodes_per_tor_, nodes_per_pod_, nodes_;
};

}  // namespace trainyard
