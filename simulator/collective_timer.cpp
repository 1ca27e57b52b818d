#include <algorithm>
#include <cmath>
#include <limits>

#include "core/error.h"
#include "network_models/network_models.h"
#include "simulator/timing.h"

namespace trainyard {
namespace {

// A ring also copies its own chunk once: bus bandwidths measured on 2, 4 and 8 GPUs fall short of
// the link by this part of a chunk (A100 171, 212, 228 of 240 GB/s; H100 263, 324, 350 of 371;
// reduce-scatter between 256 MiB and 512 MiB, aiconfigurator 095f58a).
constexpr double kOwnChunk = 0.36;

// A Simple channel carries at least this much before NCCL opens another one: 512 threads times
// 64 bytes (NCCL 2.30 src/graph/tuning.cc and src/enqueue.cc).
constexpr std::int64_t kBytesPerChannel = 512 * 64;

double gigabytes(Bandwidth bandwidth) { return bandwidth.value * 1e-9; }

// Microseconds for `bytes` at `gbs` GB/s.
double wire_us(double bytes, double gbs) { return bytes / gbs * 1e-3; }

// Bytes that each of the ranks receives where every part goes straight to whom it is for.
double moved(Op op, std::int32_t ranks, Bytes bytes) {
  if (op == Op::send) return static_cast<double>(bytes.value);
  const double others = static_cast<double>(bytes.value) * (ranks - 1) / ranks;
  return op == Op::all_reduce ? 2 * others : others;
}

double limited(double gbs, double limit) { return limit > 0 ? std::min(gbs, limit) : gbs; }

}  // namespace

Bytes ring_bytes(Op op, std::int64_t ranks, Bytes bytes) {
  if (op == Op::broadcast) return bytes;
  const std::int64_t laps = op == Op::all_reduce ? 2 : 1;
  return {laps * (ranks - 1) * bytes.value / ranks};
}

struct CollectiveTimer::Call {
  Op op;
  GroupShape shape;
  double bytes;
};

// GB/s and microseconds.
struct CollectiveTimer::Link {
  double inside = 0;       // GPU to GPU in a node
  double outside = 0;      // all NICs the group may use on a node, 0 on one node
  double net_latency = 0;  // NIC to NIC, mean over the ring
  double ranks_per_node = 1;
  double ring() const {
    if (outside == 0) return inside;
    return ranks_per_node > 1 ? std::min(inside, outside) : outside;
  }
};

CollectiveTimer::CollectiveTimer(const Cluster& cluster, const Network& network)
    : measured_(cluster.measured_calls),
      topology_(cluster),
      node_(cluster.node),
      nccl_(cluster.nccl),
      qps_(network_model_info(network.model).collisions ? network.qps_per_connection : 0) {}

CollectiveTimer::Link CollectiveTimer::link(const GroupShape& shape, const Wires& wires) const {
  Link out;
  out.inside = gigabytes(node_.nvlink.value > 0 ? node_.nvlink : node_.pcie);
  out.ranks_per_node = static_cast<double>(shape.ranks) / shape.nodes;
  if (shape.nodes == 1) return out;
  out.outside = gigabytes(wires.node);
  out.net_latency = wires.latency_us;
  return out;
}

Wires CollectiveTimer::expected_wires(const GroupShape& shape) const {
  if (shape.nodes == 1) return {};
  Wires out;
  const double ranks_per_node = static_cast<double>(shape.ranks) / shape.nodes;
  out.node.value = std::min(topology_.node_bandwidth().value / shape.concurrent_per_node,
                            ranks_per_node * node_.pcie.value);
  // A ring leaves each of its ToR sets and pods once, on every card it uses.
  const double nodes = shape.nodes, to_core = shape.pod_span > 1 ? shape.pod_span : 0;
  const double to_tor = shape.tor_span > 1 ? shape.tor_span : 0;
  if (qps_ > 0)
    out.node.value *= topology_
                          .rate({.tor_flows = node_.nics * to_tor / nodes,
                                 .core_flows = node_.nics * to_core / nodes,
                                 .tor_spans = shape.tor_span,
                                 .pod_spans = shape.pod_span,
                                 .qps = qps_})
                          .slowest;
  const double to_pod = to_tor - to_core;
  const auto share_us = [&](Tier of, double hops) {
    return to_microseconds(topology_.latency(of)) * hops / nodes;
  };
  out.latency_us = share_us(Tier::core, to_core) + share_us(Tier::pod, to_pod) +
                   share_us(Tier::tor, nodes - to_core - to_pod);
  return out;
}

// A step passes a chunk on: its latency and its data overlap in part. Root of squares lies within
// 15 % of 1,024 H100s in rings of 1 to 16 GiB (nccl-tests issue 322: 19.4, 20.2, 47.1, 93.5 ms)
// and of Alibaba's table for 8 to 128 nodes (SimAI ratio CSV), where a sum or a maximum does not.
double CollectiveTimer::ring_us(const Call& call, const Link& wires, const Protocol& protocol) {
  const auto& [op, shape, bytes] = call;
  const double ranks = shape.ranks;
  const double laps = op == Op::all_reduce ? 2 : 1;
  const double steps = laps * (ranks - 1), net_steps = laps * (shape.nodes - 1);
  // NCCL counts a tree's network step where each node has one rank (src/graph/tuning.cc); Alibaba's
  // rings of that kind reach 0.77 of the card at 16 MiB over 64 nodes (SimAI ratio CSV).
  const double net_us = wires.ranks_per_node > 1 ? protocol.ring_net_us : protocol.tree_net_us;
  const double latency =
      ((steps - net_steps) * protocol.nvlink_us + net_steps * (net_us + wires.net_latency)) / steps;
  const double gbs = limited(wires.ring() * protocol.fraction, protocol.max_gbs);
  // A broadcast streams through the ring; the others move a chunk a step.
  if (op == Op::broadcast) return protocol.base_us + steps * latency + wire_us(bytes, gbs);
  const double chunk = wire_us(bytes / ranks, gbs);
  return protocol.base_us + steps * std::hypot(latency, chunk) + kOwnChunk * chunk;
}

double CollectiveTimer::best_ring_us(const Call& call, const Link& wires) const {
  return std::min({ring_us(call, wires, nccl_.ll), ring_us(call, wires, nccl_.ll128),
                   ring_us(call, wires, nccl_.simple)});
}

Time CollectiveTimer::ring_time(Op op, const GroupShape& shape, Bytes bytes,
                                const Wires& wires) const {
  check(op == Op::all_gather || op == Op::reduce_scatter || op == Op::all_reduce ||
            op == Op::broadcast,
        "{} is no ring", op_name(op));
  if (shape.ranks <= 1 || bytes.value <= 0) return {};
  const Call call{op, shape, static_cast<double>(bytes.value)};
  return microseconds(nccl_.launch_us + best_ring_us(call, link(shape, wires)));
}

// Two binary trees over the nodes, a chain inside each: up with the sums, down with the result, so
// a link carries the data twice. On two nodes each direction of the wire carries one tree only.
double CollectiveTimer::tree_us(const Call& call, const Link& wires,
                                const Protocol& protocol) const {
  const auto& [op, shape, bytes] = call;
  const double efficiency = nccl_.tree_fraction * protocol.fraction;
  double gbs = wires.outside * (shape.nodes == 2 ? 1 : 0.5);
  if (wires.ranks_per_node > 1) gbs = std::min(gbs, 0.5 * wires.inside);
  gbs = limited(gbs * efficiency, protocol.max_gbs);
  const double depth = std::log2(static_cast<double>(shape.nodes));
  return protocol.base_us +
         2 * ((wires.ranks_per_node - 1) * protocol.nvlink_us +
              depth * (protocol.tree_net_us + wires.net_latency)) +
         wire_us(bytes, gbs);
}

double CollectiveTimer::best_tree_us(const Call& call, const Link& wires) const {
  return std::min({tree_us(call, wires, nccl_.ll), tree_us(call, wires, nccl_.ll128),
                   tree_us(call, wires, nccl_.simple)});
}

Time CollectiveTimer::tree_time(const GroupShape& shape, Bytes bytes, const Wires& wires) const {
  check(shape.nodes > 1, "a tree needs two nodes");
  if (bytes.value <= 0) return {};
  const Call call{Op::all_reduce, shape, static_cast<double>(bytes.value)};
  return microseconds(nccl_.launch_us + best_tree_us(call, link(shape, wires)));
}

// Summed in the NVLink switches of whole nodes, tree between them (NVLS, NVLSTree).
double CollectiveTimer::nvls_us(const Call& call, const Link& wires) const {
  const auto& [op, shape, bytes] = call;
  double gbs = nccl_.nvls_gbs, latency = nccl_.nvls_us;
  if (shape.nodes > 1) {
    gbs = std::min(gbs, wires.outside * (shape.nodes == 2 ? 1 : 0.5));
    latency +=
        2 * std::log2(static_cast<double>(shape.nodes)) * (nccl_.nvls_net_us + wires.net_latency);
  }
  return latency + wire_us(bytes, gbs);
}

// Every rank sends 1/n to every other; the part for other nodes goes through its NIC.
double CollectiveTimer::all_to_all_us(const Call& call, const Link& wires) const {
  const auto& [op, shape, bytes] = call;
  const double ranks = shape.ranks;
  double data = wire_us(bytes * (ranks - 1) / ranks, wires.inside * nccl_.all_to_all_fraction);
  double latency = nccl_.all_to_all_us + ranks * nccl_.all_to_all_peer_us;
  if (shape.nodes > 1) {
    const double remote = bytes * (ranks - wires.ranks_per_node) / ranks;
    data = std::max(data, wire_us(remote, wires.outside / wires.ranks_per_node));
    latency += nccl_.simple.tree_net_us + wires.net_latency;
  }
  return latency + data;
}

const MeasuredCall* CollectiveTimer::measured(Op op) const {
  const auto found = std::ranges::find(measured_, op_name(op), &MeasuredCall::op);
  return found == measured_.end() ? nullptr : &*found;
}

Time CollectiveTimer::work(Op op, std::int32_t ranks, Bytes bytes) const {
  const MeasuredCall* const call = measured(op);
  if (call == nullptr || ranks <= 1 || bytes.value <= 0) return {};
  return microseconds(call->work_us + (ranks - 1) * call->work_peer_us +
                      moved(op, ranks, bytes) * call->work_byte_ns * 1e-3);
}

Time CollectiveTimer::wait(const MeasuredCall& call, Op op, std::int32_t ranks, Bytes bytes) {
  return microseconds(call.wait_us + (ranks - 1) * call.wait_peer_us +
                      moved(op, ranks, bytes) * call.wait_byte_ns * 1e-3);
}

Time CollectiveTimer::time(Op op, const GroupShape& shape, Bytes bytes) const {
  check(op == Op::all_gather || op == Op::reduce_scatter || op == Op::all_reduce ||
            op == Op::all_to_all || op == Op::broadcast,
        "{} is no collective", op_name(op));
  if (shape.ranks <= 1 || bytes.value <= 0) return {};
  if (const MeasuredCall* known = measured(op)) return wait(*known, op, shape.ranks, bytes);
  const Wires expected = expected_wires(shape);
  return choose(op, shape, bytes, expected, expected).time;
}

CollectiveTimer::Choice CollectiveTimer::choose(Op op, const GroupShape& shape, Bytes bytes,
                                                const Wires& ring, const Wires& tree) const {
  const Call call{op, shape, static_cast<double>(bytes.value)};
  const Link wires = link(shape, ring);
  const auto choice = [this](double us, std::string_view algorithm) {
    return Choice{microseconds(nccl_.launch_us + us), algorithm};
  };
  if (op == Op::all_to_all) return choice(all_to_all_us(call, wires), "pairs");
  double best = best_ring_us(call, wires);
  std::string_view algorithm = "ring";
  const auto consider = [&](double us, std::string_view name) {
    if (us >= best) return;
    best = us;
    algorithm = name;
  };
  if (op == Op::all_reduce && shape.nodes > 1)
    consider(best_tree_us(call, link(shape, tree)), "tree");
  const bool whole_nodes = shape.ranks == shape.nodes * node_.gpus && node_.gpus > 4;
  if (op == Op::all_reduce && nccl_.nvls_gbs > 0 && whole_nodes)
    consider(nvls_us(call, link(shape, tree)), shape.nodes > 1 ? "nvls tree" : "nvls");
  return choice(best, algorithm);
}

Wiring CollectiveTimer::wiring(Op op, const GroupShape& shape, Bytes bytes) const {
  if (shape.nodes <= 1 || bytes.value <= 0 || op == Op::all_to_all || measured(op) != nullptr)
    return Wiring::none;
  const Wires expected = expected_wires(shape);
  return choose(op, shape, bytes, expected, expected).algorithm == "ring" ? Wiring::ring
                                                                          : Wiring::tree;
}

Time CollectiveTimer::time_over(Op op, const GroupShape& shape, Bytes bytes,
                                const Wires& wires) const {
  const Wires expected = expected_wires(shape);
  const std::string_view algorithm = choose(op, shape, bytes, expected, expected).algorithm;
  if (algorithm == "ring") return ring_time(op, shape, bytes, wires);
  if (algorithm == "tree") return tree_time(shape, bytes, wires);
  const Call call{op, shape, static_cast<double>(bytes.value)};
  return microseconds(nccl_.launch_us + nvls_us(call, link(shape, wires)));
}

Time CollectiveTimer::transfer(Bytes bytes, Tier tier, std::int32_t concurrent_per_node) const {
  if (const MeasuredCall* known = measured(Op::send)) return wait(*known, Op::send, 2, bytes);
  return message_overhead(tier) + topology_.message(bytes, tier, concurrent_per_node, qps_);
}

Time CollectiveTimer::message_overhead(Tier tier) const {
  return microseconds(tier == Tier::node ? nccl_.p2p_intra_us : nccl_.p2p_inter_us);
}

}  // namespace trainyard
