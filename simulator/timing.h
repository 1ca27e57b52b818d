#pragma once
#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "core/config/job.h"
#include "core/program/program.h"
#include "network_models/topology.h"
#include "simulator/wiring.h"

namespace trainyard {

// Multipliers of whole cost classes, for "what if this were free?" (0) and sensitivity studies.
struct CostScale {
  double gemm = 1, attention = 1, memory = 1, optimizer = 1;
  double tensor_comm = 1, pipeline_comm = 1, data_comm = 1;
  double launch = 1, data_loading = 1, host = 1;
};

// Whether software.fp8_linear makes `kernel` a product in FP8: all of linear layers but the output
// projection (TransformerEngine; Megatron-LM keeps the logits in bf16).
bool multiplies_in_fp8(const KernelSpec& kernel, const Software& software);

// Time one kernel takes on an otherwise idle GPU, or beside a collective that holds some SMs.
// Throws ConfigError where the GPU has no such kernel (dtype, attention generation).
class KernelTimer {
 public:
  // `threads`: of a rank's kernels, where they were measured.
  KernelTimer(const GpuProfile& gpu, const Software& software, std::int32_t threads = 1);

  // About a microsecond of host time a call: tabulate per program where it matters.
  Time time(const KernelSpec& kernel) const;

 private:
  double gemm_us(const KernelSpec& kernel) const;
  double cast_us(const KernelSpec& kernel) const;
  double gradient_sum_us(const KernelSpec& kernel) const;
  double batched_gemm_us(const KernelSpec& kernel) const;
  double attention_us(const KernelSpec& kernel) const;
  double memory_us(const KernelSpec& kernel) const;
  double peak_tflops(DType dtype) const;
  const GpuProfile::Attention& fused_attention() const;

  struct Measured {
    double t0_us = 0, flop_ps = 0, byte_ps = 0;
  };
  const Measured* measured(const KernelSpec& kernel) const;  // null: it was not

  std::map<std::string, Measured> measured_;
  GpuProfile gpu_;
  Software software_;
};

// The members of one collective, as far as its time depends on them.
struct GroupShape {
  std::int32_t ranks = 1;
  std::int32_t nodes = 1;
  std::int32_t concurrent_per_node = 1;     // groups of this kind that share a node's NICs
  std::int32_t tor_span = 1, pod_span = 1;  // how many ToR sets and pods the ring crosses
  auto operator<=>(const GroupShape&) const = default;
};

// The shape of the group of kind `group` that `member` belongs to. Nodes the group touches are
// taken to hold such groups on all their GPUs, and to hold the same number of members each.
GroupShape group_shape(const Mesh& mesh, const Placement& placement, const Cluster& cluster,
                       Group group, RankId member);

// What the ring of a group gets between nodes: payload of each of its nodes on all its cards
// together, and the mean latency from card to card.
struct Wires {
  Bandwidth node;
  double latency_us = 0;
};

// What each edge of a ring carries in a collective over `ranks` ranks.
Bytes ring_bytes(Op op, std::int64_t ranks, Bytes bytes);

// Time of a collective over `shape`, by NCCL's choice of algorithm and protocol.
// `bytes` is the full (unsharded) size, as nccl-tests counts it.
class CollectiveTimer {
 public:
  CollectiveTimer(const Cluster& cluster, const Network& network);

  // 0 for one rank or no bytes. Op is a collective.
  Time time(Op op, const GroupShape& shape, Bytes bytes) const;
  // What a ring over several nodes is expected to get.
  Wires expected_wires(const GroupShape& shape) const;
  // The same collective as a ring over `wires`, by the best protocol.
  Time ring_time(Op op, const GroupShape& shape, Bytes bytes, const Wires& wires) const;
  // All-reduce over two binary trees of the nodes.
  Time tree_time(const GroupShape& shape, Bytes bytes, const Wires& wires) const;
  // What NCCL takes where its rings and trees would get such wires, and how it is called.
  struct Choice {
    Time time;
    std::string_view algorithm;
  };
  Choice choose(Op op, const GroupShape& shape, Bytes bytes, const Wires& ring,
                const Wires& tree) const;
  // How the flows between nodes lie of what time() takes; none where there are none or its time was
  // measured.
  Wiring wiring(Op op, const GroupShape& shape, Bytes bytes) const;
  // The same algorithm as time() takes (NCCL chooses by what it expects) over such wires.
  Time time_over(Op op, const GroupShape& shape, Bytes bytes, const Wires& wires) const;
  // What each of the `ranks` works for it before, or for a message (Op::send): where that was
  // measured, else 0.
  Time work(Op op, std::int32_t ranks, Bytes bytes) const;
  // A message between two ranks whose path climbs to `tier`, once both sides are ready, while
  // `concurrent_per_node` such messages leave the node.
  Time transfer(Bytes bytes, Tier tier, std::int32_t concurrent_per_node) const;
  // NCCL's part of a transfer; a network model that follows flows adds the rest.
  Time message_overhead(Tier tier) const;

 private:
  using Protocol = NcclProfile::Protocol;
  struct Call;
  struct Link;  // what a group sees of the wires

  Link link(const GroupShape& shape, const Wires& wires) const;
  double best_ring_us(const Call& call, const Link& wires) const;
  double best_tree_us(const Call& call, const Link& wires) const;
  static double ring_us(const Call& call, const Link& wires, const Protocol& protocol);
  double tree_us(const Call& call, const Link& wires, const Protocol& protocol) const;
  double nvls_us(const Call& call, const Link& wires) const;
  double all_to_all_us(const Call& call, const Link& wires) const;
  const MeasuredCall* measured(Op op) const;
  static Time wait(const MeasuredCall& call, Op op, std::int32_t ranks, Bytes bytes);

  std::vector<MeasuredCall> measured_;
  Topology topology_;
  NodeProfile node_;
  NcclProfile nccl_;
  std::int64_t qps_;  // 0: no collisions
};

}  // namespace trainyard
