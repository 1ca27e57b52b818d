#pragma once
#include <cstdint>

#include "core/config/job.h"

namespace trainyard {

// Learning rate of the step before which `step` steps have been done (StepInputs::step), of
// `total_steps`. It rises in a line from 0 before the first step to the highest at the last step of
// the warm-up, then falls by the schedule to the lowest at the last step of all and stays there.
// Cosine: Loshchilov and Hutter, "SGDR", arXiv 1608.03983, equation 5, without restarts. A function
// of the step alone, so a resumed run goes on with exactly the same rates.
double learning_rate(const Optimization& how, std::int64_t total_steps, std::int64_t step);

// Steps of the whole training: training.steps, or as many global batches as hold
// training.total_tokens. Throws ConfigError when neither is given.
std::int64_t total_steps(const Job& job);

}  // namespace trainyard
