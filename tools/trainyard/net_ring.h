#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "core/config/job.h"
#include "network_models/flow/flow_model.h"
#include "simulator/timing.h"
#include "simulator/wiring.h"

namespace trainyard {

// How the flows of a collective lie: around the nodes, up and down two binary trees of them, or
// from every GPU to every other.
enum class Pattern : std::uint8_t { ring, tree, pairs };

// Groups of GPUs that run a collective at the same moment, all of equal size.
struct RingLayout {
  Pattern pattern = Pattern::ring;
  std::int64_t gpus = 0;           // of one group
  std::int32_t per_node = 0;       // GPUs of a node in one group
  std::int64_t groups = 1;         // those that share nodes first
  bool shuffled = false;           // nodes in random order, not as they stand
  std::vector<std::string> links;  // "tor_up:3:5=0": what is left of a link's rate; 0: down

  std::int64_t nodes() const { return gpus / per_node; }
};

// What the fabric did to them.
struct RingReport {
  Pattern pattern = Pattern::ring;
  std::vector<Wires> wires;                   // of each group
  double slowest_edge = 1;                    // of the rate that cards allow
  std::string slowest_link;                   // that held it back
  double slowest_pairs = 0;                   // queue pairs on that link
  std::int64_t batches = 0, batches_run = 0;  // of pairs; those that were left out count alike
  std::int64_t flows = 0, uplinks = 0, uplinks_used = 0, uplinks_crowded = 0;
};

// Nodes of each group in ring order. Throws ConfigError if the cluster has too few.
std::vector<std::vector<std::int32_t>> ring_nodes(const Job& job, const RingLayout& layout);

// Shape of group `group` for the collective timer.
GroupShape ring_shape(const Job& job, const RingLayout& layout,
                      const std::vector<std::int32_t>& nodes);

// Runs all groups over the flow model: each card of a group's GPUs carries a ring (or two trees) of
// its own, every edge of it between nodes is a flow, and all move at the pace of the slowest. Pairs
// send to eight GPUs at a time, each eight further on than the last, as NCCL does (src/enqueue.cc).
RingReport run_rings(const Job& job, const RingLayout& layout);

// The same rings or trees on the network model that the job names: what they get, and no more.
RingReport run_rings_beside(const Job& job, const RingLayout& layout);

// The model with the layout's links as they are set. Throws ConfigError.
FlowModel make_flows(const Job& job, const RingLayout& layout);
// Pairs of GPUs, see run_rings.
RingReport run_pairs(const Job& job, const RingLayout& layout);

}  // namespace trainyard
