#pragma once
#include <chrono>

#include "backends/common/calibration/call_times.h"
#include "backends/common/calibration/kernel_times.h"

namespace trainyard {

struct MeasureOptions {
  TrialRank place;                        // all that measure
  std::int32_t cores = 1;                 // of this machine
  std::vector<std::int32_t> rank_counts;  // of groups whose calls are timed, rising
  MakeBackend make_backend;
  Precision precision = Precision::fp32;  // that trainings compute in
  // Where each process has a device of its own: which one, and how long to measure kernels.
  bool on_devices = false;
  std::int32_t device = 0;
  std::chrono::seconds limit{60};
};

// Numbers of threads a rank's kernels have when 1, 2, 3 … ranks share the cores, rising.
std::vector<std::int32_t> thread_counts(std::int32_t cores);

// Processes that measure() needs: one for each core, or each rank of the largest group.
std::int32_t processes_for(std::int32_t cores, const std::vector<std::int32_t>& rank_counts);

// Times kernels and calls on this machine as one of its processes: kernels with every number of
// threads while the cores that are left do the same, calls in groups of every size while the other
// processes rest. On devices of their own all processes time kernels at once, as in a training.
// Rank 0's samples are those to use.
Samples measure(const MeasureOptions& options);

}  // namespace trainyard
