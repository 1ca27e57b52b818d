#pragma once
#include <cmath>
#include <cstdint>

#include "backends/common/kernel_call.h"

namespace trainyard {

// What changes from step to step, in device memory: kernels get a pointer to it, so that launches
// captured once can be replayed. Uploaded before the first kernel of a step.
struct StepScalars {
  std::int64_t step = 0;  // with the seed and the site, the key of dropout draws
  double loss_weight = 1, gradient_scale = 1, learning_rate = 0;
  double correct1 = 1, correct2 = 1;  // 1 / (1 - beta^update) of Adam's moments
  std::int32_t skip =
      0;  // gradients overflowed: optimizer kernels change nothing; check_overflow()
};

inline StepScalars step_scalars(const KernelContext& c) {
  const auto correction = [&](double beta) {
    return 1 / (1 - std::pow(beta, static_cast<double>(c.update)));
  };
  return {c.step,
          c.loss_weight,
          c.gradient_scale,
          c.learning_rate,
          correction(c.beta1),
          correction(c.beta2),
          c.skip_update ? 1 : 0};
}

}  // namespace trainyard
