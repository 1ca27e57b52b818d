#include "core/engine/learning_rate.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "core/error.h"

namespace trainyard {

double learning_rate(const Optimization& how, std::int64_t total_steps, std::int64_t step) {
  check(step >= 0, "learning rate of step {}", step);
  const double highest = how.learning_rate, lowest = how.min_learning_rate;
  if (step < how.warmup_steps)
    return highest * static_cast<double>(step + 1) / static_cast<double>(how.warmup_steps);
  if (how.schedule == LearningRateSchedule::constant) return highest;

  const std::int64_t peak = std::max<std::int64_t>(how.warmup_steps - 1, 0);
  if (step == peak) return highest;
  if (step >= total_steps - 1) return lowest;
  const double done =
      static_cast<double>(step - peak) / static_cast<double>(total_steps - 1 - peak);
  const double left = how.schedule == LearningRateSchedule::linear
                          ? 1 - done
                          : (1 + std::cos(std::numbers::pi * done)) / 2;
  return lowest + (highest - lowest) * left;
}

std::int64_t total_steps(const Job& job) {
  if (job.optimization.steps > 0) return job.optimization.steps;
  const double tokens = job.training.total_tokens;
  if (!(tokens > 0))
    throw ConfigError(
        "training.steps: 0, and training.total_tokens is not given either: a real run needs one");
  const std::int64_t batch = job.batch.global_sequences * job.batch.sequence_length;
  return static_cast<std::int64_t>(std::ceil(tokens / static_cast<double>(batch)));
}

}  // namespace trainyard
