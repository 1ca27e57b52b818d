#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "core/config/job.h"
#include "core/program/program.h"
#include "network_models/network_model.h"

namespace trainyard {

// Multipliers of whole cost classes, for "what if this were free?" (0) and sensitivity studies.
struct CostScale {
  double gemm = 1, attention = 1, memory = 1, optimizer = 1;
  double tensor_comm = 1, pipeline_comm = 1, data_comm = 1;
  double launch = 1, data_loading = 1, host = 1;
};

// Seconds one kernel takes alone on an otherwise idle GPU.
class KernelTimer {
 public:
  KernelTimer(const GpuProfile& gpu, const Software& software);
  Time time(const KernelSpec& kernel) const;

 private:
  GpuProfile gpu_;
  Software software_;
  const GpuProfile::Attention* attention_ = nullptr;
};

// The members of one collective, as far as its time depends on them.
struct GroupShape {
  std::int32_t ranks = 1;
  std::int32_t nodes = 1;
  std::int32_t concurrent_per_node = 1;     // groups of this kind that share a node's NICs
  std::int32_t tor_span = 1, pod_span = 1;  // how many ToR sets and pods the ring crosses
  auto operator<=>(const GroupShape&) const = default;
};
GroupShape group_shape(const Mesh& mesh, const Placement& placement, const Cluster& cluster,
                       Group group, RankId member);

// Time of a collective over `shape`, by NCCL's choice of algorithm and protocol.
// `bytes` is the full (unsharded) size, as nccl-tests counts it.
class CollectiveTimer {
 public:
  CollectiveTimer(const Cluster& cluster, const Network& network);
  Time time(Op op, const GroupShape& shape, Bytes bytes) const;
  // A point-to-point message between two ranks, once both are ready.
  Time transfer(Bytes bytes, bool same_node, std::int32_t concurrent_per_node) const;

 private:
  Cluster cluster_;
  Network network_;
};

}  // namespace trainyard
