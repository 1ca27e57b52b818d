#pragma once
#include <vector>

#include "core/config/job.h"

namespace trainyard {

// Small single-rank trainings that together use every kernel kind over a spread of shapes: GPT- and
// Llama-style layers from narrow to wide, as tensor parallelism cuts them, fused and unfused
// attention, dropout, all optimizers. `threads`: of the kernels.
std::vector<Job> trial_jobs(Precision precision, std::int32_t threads);

// The same for a device of its own in `precision`: small ones with every kernel first, then rising
// to layers of a model of 7 billion parameters.
std::vector<Job> device_trial_jobs(Precision precision);

}  // namespace trainyard
