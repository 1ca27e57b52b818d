#pragma once
#include <cstdint>
#include <vector>

#include "core/config/job.h"
#include "core/program/program.h"
#include "simulator/costs.h"

namespace trainyard {

// What a rank's own work takes: kernels, copies and host work in ns, 0 for everything else.
// Measured times of the job stand in for the models': a measured pass is charged to its first
// kernel, and its other kernels and its tensor collectives are then free.
struct Durations {
  std::vector<std::int64_t> of;        // each instruction
  std::vector<bool> free_collectives;  // of each pass
};
Durations make_durations(const Job& job, const Program& program, const Costs& costs,
                         const CostScale& scale);

}  // namespace trainyard
