#pragma once
// A small run to tell observers about.

#include "backends/common/run_observer.h"

namespace trainyard {

// 4 ranks of 500 FLOP/s; a step of 100 tokens at 6 FLOPs each, so 0.3 s at full use.
inline RunFacts small_run() {
  return {.job = "toy",
          .program_hash = 0xabcdef,
          .ranks = 4,
          .total_steps = 1200,
          .steps_done = 0,
          .tokens_per_step = 100,
          .model_flops_per_token = 6,
          .peak = {500},
          .peak_memory = {std::int64_t{3} << 29}};
}

// A step that takes half a second, a tenth of it waiting for data.
inline StepRecord small_step(std::int64_t step, double loss) {
  return {.step = step,
          .loss = loss,
          .grad_norm = 2 * loss,
          .learning_rate = 0.001,
          .loss_scale = 1,
          .skipped = false,
          .time = seconds(0.5),
          .data_wait = seconds(0.05),
          .tokens = 100};
}

}  // namespace trainyard
