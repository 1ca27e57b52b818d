#include <gtest/gtest.h>

#include "core/memory/memory_plan.h"
#include "core/plan/plan.h"
#include "core/plan/stage.h"
#include "tests/core/plan/jobs.h"

namespace trainyard {
namespace {

// "reads chunk0.param_shard before it is written": in fp32 the shard is the only master copy, and
// was dropped at the end of the step.
TEST(PlannerRegressions, Fp32ShardsLastFromStepToStep) {
  for (const std::int32_t zero : {1, 2}) {
    Job job = small_job(1, 1, 2, 1);
    job.training.precision = Precision::fp32;
    job.parallel.zero = zero;
    EXPECT_NO_THROW(plan(job)) << "ZeRO-" << zero;
  }
}

// "W0.0 computes nothing": a first stage of the embedding alone has no weight gradients to put off,
// with and without reductions that would have followed them.
TEST(PlannerRegressions, AnEmbeddingStageHasNoWeightGradientPasses) {
  for (const bool overlap : {false, true}) {
    Job job = small_job(1, 3, 2, 3);
    job.schedule.pipeline = Order::zb_h1;
    job.schedule.overlap.data = overlap;
    job.parallel.zero = 1;
    job.parallel.layers_per_stage = {0, 4, 4};
    const ProgramSet set = plan(job);
    for (const Pass& pass : set.by_stage[0]->passes)
      EXPECT_NE(pass.kind, PassKind::weight_grad) << overlap;
  }
}

// memory_use() crashed on a persistent buffer that no instruction uses.
TEST(PlannerRegressions, UnusedPersistentBuffersAreCounted) {
  Program program;
  program.buffer_types.push_back(
      {"unused", {4, 8}, {4, 8}, DType::fp32, MemoryClass::optimizer, true});
  program.buffers.emplace_back();
  plan_memory(program);
  const MemoryUse use = memory_use(program);
  EXPECT_EQ(use.by_class[static_cast<int>(MemoryClass::optimizer)].value, 4 * 8 * 4);
}

}  // namespace
}  // namespace trainyard
