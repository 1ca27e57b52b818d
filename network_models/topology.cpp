#include "network_models/topology.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace trainyard {
namespace {

constexpr std::int64_t kAllNodes = std::numeric_limits<std::int32_t>::max();

bool tiered(const FabricProfile& fabric) { return fabric.kind != "single-switch"; }

}  // namespace

std::int32_t core_ports(const FabricProfile& fabric) {
  const double ports = fabric.tors_per_pod / fabric.oversubscription;
  return std::max(1, static_cast<std::int32_t>(std::lround(ports)));
}

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
  if (qps > 0 && tier >= Tier::pod) {
    const double flows = concurrent;
    const Crossing crossing{flows, tier == Tier::core ? flows : 0, 1, 1, qps};
    rate = rate * this->rate(crossing).mean;
  }
  return latency(tier) + transfer_time(bytes, rate);
}

ExpectedRate Topology::rate(const Crossing& crossing) const {
  const double capacity = fabric_.uplink.value / node_.nic.value;
  ExpectedRate out;
  const auto pass = [&](double flows, double links, std::int64_t spans) {
    const double full = std::min(1.0, links * capacity / std::max(1.0, flows));
    ExpectedRate here{full, full};  // what load alone allows
    if (!fabric_.adaptive_routing)
      here = expected_rate({.flows = std::max<std::int64_t>(1, std::llround(flows)),
                            .links = std::max<std::int64_t>(1, std::llround(links)),
                            .capacity = capacity,
                            .qps = crossing.qps,
                            .stages = 2 * spans});  // up and down
    out = {std::min(out.mean, here.mean), std::min(out.slowest, here.slowest)};
  };
  if (crossing.tor_flows > 0) {
    const auto nodes = static_cast<double>(std::min(nodes_, nodes_per_tor_));
    pass(crossing.tor_flows * nodes / fabric_.rails, fabric_.tor_uplinks, crossing.tor_spans);
  }
  if (crossing.core_flows > 0) {
    const auto nodes = static_cast<double>(std::min(nodes_, nodes_per_pod_));
    const double links = static_cast<double>(fabric_.tors_per_pod) * fabric_.tor_uplinks;
    // A hash that has chosen one of n uplinks of the ToR chooses among m above it by the same
    // number: m / gcd(n, m) of them are ever used.
    const int idle = fabric_.polarised ? std::gcd(fabric_.tor_uplinks, core_ports(fabric_)) : 1;
    pass(crossing.core_flows * nodes, links / fabric_.oversubscription / idle, crossing.pod_spans);
  }
  return out;
}

}  // namespace trainyard
