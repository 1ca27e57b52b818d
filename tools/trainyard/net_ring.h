#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "core/config/job.h"
#include "simulator/timing.h"

namespace trainyard {

// Groups of GPUs that run a ring collective at the same moment, all of equal size.
struct RingLayout {
  std::int64_t gpus = 0;           // of one group
  std::int32_t per_node = 0;       // GPUs of a node in one group
  std::int64_t groups = 1;         // those that share nodes first
  bool shuffled = false;           // nodes in random order, not as they stand
  std::vector<std::string> links;  // "tor_up:3:5=0": what is left of a link's rate; 0: down

  std::int64_t nodes() const { return gpus / per_node; }
};

// What the fabric did to them.
struct RingReport {
  std::vector<Wires> wires;  // of each group
  double slowest_edge = 1;   // of the rate that cards allow
  std::string slowest_link;  // that held it back
  double slowest_pairs = 0;  // queue pairs on that link
  std::int64_t flows = 0, uplinks = 0, uplinks_used = 0, uplinks_crowded = 0;
};

// Nodes of each group in ring order. Throws ConfigError if the cluster has too few.
std::vector<std::vector<std::int32_t>> ring_nodes(const Job& job, const RingLayout& layout);

// Shape of group `group` for the collective timer.
GroupShape ring_shape(const Job& job, const RingLayout& layout,
                      const std::vector<std::int32_t>& nodes);

// Runs all groups over the flow model: each card of a group's GPUs carries a ring of its own, every
// edge of it between nodes is a flow, and a ring moves at the pace of its slowest edge.
RingReport run_rings(const Job& job, const RingLayout& layout);

}  // namespace trainyard
