#pragma once
#include <cstdint>
#include <vector>

namespace trainyard {

struct Scene;

// How many cores the ranks of a node share, and how many a rank's kernels use at once.
struct SharedCores {
  std::int32_t cores = 0;  // 0: each rank has a processor of its own
  std::int32_t threads = 1;
  bool bound = true;  // each rank keeps to its core_share()
};

// What the own work of each rank takes where the ranks of a node share its cores, ns,
// [rank][step]: kernels and the work of communication alike. While those who share cores ask for
// more than there are, all of their work slows down alike (processor sharing); a rank that waits
// for others leaves its cores to them.
std::vector<std::vector<std::int64_t>> share_cores(const Scene& scene, const SharedCores& shared);

}  // namespace trainyard
