#include "network_models/topology.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace trainyard {
namespace {

constexpr std::int64_t kAllNodes = std::numeric_limits<std::int32_t>::max();

bool tiered(const FabricProfile& fabric) { return fabric.kind != "single-switch"; }

}  // namespace

Topology::Topology(const Cluster& cluster)
    : node_(cluster.node),
      fabric_(cluster.fabric),
      nodes_per_tor_(tiered(fabric_) ? fabric_.nodes_per_tor : kAllNodes),
      nodes_per_pod_(tiered(fabric_)
                         ? nodes_per_tor_ * std::max(1, fabric_.tors_per_pod / fabric_.rails)
                         : kAllNodes),
      nodes_(cluster.nodes) {}

Tier Topology::tier(NodeId a, NodeId b) const {
  if (a == b) return Tier::node;
  if (tor_set(a) == tor_set(b)) return Tier::tor;
  return pod(a) == pod(b) ? Tier::pod : Tier::core;
}

Time Topology::latency(Tier tier) const {
  if (tier == Tier::node) return {};
  const double further_switches = tier == Tier::tor ? 0 : tier == Tier::pod ? 2 : 4;
  return microseconds(fabric_.base_latency_us + further_switches * fabric_.hop_latency_us);
}

Bandwidth Topology::node_bandwidth() const {
  return {node_.nics * node_.nic.value * node_.nic_efficiency};
}

Time Topology::message(Bytes bytes, Tier tier, std::int32_t concurrent, std::int64_t qps) const {
  if (tier == Tier::node)
    return transfer_time(bytes, node_.nvlink.value > 0 ? node_.nvlink : node_.pcie);
  // A message uses one NIC; more of them than NICs share.
  const double sharing = std::max(node_.nics, concurrent);
  Bandwidth rate{std::min(node_bandwidth().value / sharing, node_.pcie.value)};
  if (qps > 0) rate = rate * this->rate(tier, concurrent, 1, qps).mean;
  return latency(tier) + transfer_time(bytes, rate);
}

ExpectedRate Topology::rate(Tier tier, double flows_per_node, std::int64_t spans,
                            std::int64_t qps) const {
  if (tier < Tier::pod) return {};
  const double capacity = fabric_.uplink.value / node_.nic.value;
  // Up and down are separate draws.
  const auto stage = [&](double flows, double links) {
    return expected_rate({.flows = std::max<std::int64_t>(1, std::llround(flows)),
                          .links = std::max<std::int64_t>(1, std::llround(links)),
                          .capacity = capacity,
                          .qps = qps,
                          .stages = 2 * spans});
  };
  const auto full = [&](double flows, double links) {  // what load alone allows
    return std::min(1.0, links * capacity / std::max(1.0, flows));
  };
  const double tor_flows = flows_per_node * static_cast<double>(std::min(nodes_, nodes_per_tor_)) /
                           static_cast<double>(fabric_.rails);
  const double pod_flows = flows_per_node * static_cast<double>(std::min(nodes_, nodes_per_pod_));
  const double tor_links = fabric_.tor_uplinks;
  const double pod_links =
      tor_links * fabric_.aggregation_uplinks / std::max(1.0, fabric_.oversubscription);
  ExpectedRate out{full(tor_flows, tor_links), full(tor_flows, tor_links)};
  if (tier == Tier::core) out.mean = out.slowest = std::min(out.mean, full(pod_flows, pod_links));
  if (fabric_.adaptive_routing) return out;
  const auto worse = [&out](const ExpectedRate& other) {
    out = {std::min(out.mean, other.mean), std::min(out.slowest, other.slowest)};
  };
  worse(stage(tor_flows, tor_links));
  if (tier == Tier::core) worse(stage(pod_flows, pod_links));
  return out;
}

}  // namespace trainyard
