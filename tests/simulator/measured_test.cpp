#include <gtest/gtest.h>

#include "core/plan/plan.h"
#include "tests/core/plan/jobs.h"
#include "tests/simulator/hand_built.h"

namespace trainyard {
namespace {

// One pass of two kernels with a collective of 7 between them.
HandBuilt forward_pass() {
  HandBuilt stage;
  stage.pass(PassKind::forward);
  const auto a = stage.kernel(100);
  const auto b = stage.collective(Group::tensor, 7, Stream::tensor, {a});
  stage.kernel(100, {b});
  return stage;
}

TEST(Measured, PassTakesItsMeasuredTimeAsAWhole) {
  Job job = hand_job(2);
  job.measured.forward_ms = {0.25};
  EXPECT_EQ(run(job, {forward_pass()}).iteration, microseconds(250));
}

TEST(Measured, OtherPassesKeepTheirModel) {
  Job job = hand_job(2);
  job.measured.backward_ms = {0.25};
  EXPECT_EQ(run(job, {forward_pass()}).iteration, nanoseconds(207));
}

TEST(Measured, CollectivesAndMessagesTakeTheirMeasuredTimes) {
  HandBuilt first(0), second(1);
  for (HandBuilt* stage : {&first, &second}) {
    const auto a = stage->collective(Group::data, 5, Stream::data);
    const auto b = stage->collective(Group::embedding, 5, Stream::data);
    if (stage == &first)
      stage->send(1, 0, 5, {a, b});
    else
      stage->recv(-1, 0, 5, {a, b});
  }
  Job job = hand_job(1, 2, 2);
  job.measured.gradient_reduce_scatter_ms = 3;  // also what ZeRO-0's all-reduce takes
  job.measured.embedding_all_reduce_ms = 2;
  job.measured.pipeline_transfer_ms = 0.5;
  EXPECT_EQ(run(job, {first, second}).iteration, microseconds(5500));
}

TEST(Measured, NormAndOptimizerAreChargedOnce) {
  HandBuilt stage;
  stage.pass(PassKind::optimizer);
  stage.kernel(1, {}, KernelKind::grad_norm);
  stage.kernel(1, {}, KernelKind::grad_norm);
  const auto a = stage.kernel(1, {}, KernelKind::grad_clip);
  const auto b = stage.collective(Group::world, 9, Stream::data, {a});
  stage.kernel(1, {b}, KernelKind::adam);
  stage.kernel(1, {}, KernelKind::adam);
  Job job = hand_job(2);
  job.measured.gradient_norm_ms = 4;
  job.measured.optimizer_ms = 30;
  EXPECT_EQ(run(job, {stage}).iteration, microseconds(34'000));
}

TEST(Measured, StageTimesAreSpreadOverChunks) {
  HandBuilt stage;
  stage.pass(PassKind::forward);
  stage.kernel(1);
  Job job = hand_job();
  job.parallel.virtual_stages = 4;
  job.measured.forward_ms = {2};
  EXPECT_EQ(run(job, {stage}).iteration, microseconds(500));
  job.measured.forward_ms = {2, 9, 9, 9};  // one a chunk
  EXPECT_EQ(run(job, {stage}).iteration, microseconds(2000));
}

class FreeOfCharge final : public Costs {
 public:
  Time kernel(const KernelSpec&) const override { return {}; }
  Time collective(Op, const GroupShape&, Bytes) const override { return {}; }
  Time transfer(Bytes, const Route&) const override { return {}; }
};

// A production job's profile (ByteDance StragglerAnalysis, Apache-2.0, trace "ST"): data 2 x
// pipeline 4, four micro-batches, 1F1B without overlap. Means of the trace in ms.
Job traced_job() {
  Job job = small_job(1, 4, 2, 4);
  job.parallel.zero = 1;
  job.measured.forward_ms = {85.282};
  job.measured.backward_ms = {158.410};
  job.measured.parameter_all_gather_ms = 24.627;
  job.measured.gradient_reduce_scatter_ms = 50.536;
  job.measured.embedding_all_reduce_ms = 10.492 + 0.038;
  job.measured.gradient_norm_ms = 5.129;
  job.measured.optimizer_ms = 40.5;
  job.measured.pipeline_transfer_ms = 0.60;  // the trace has 0.546 to 0.634
  return job;
}

TEST(Measured, ReplaysAProductionTraceWithIdealStages) {
  const Job job = traced_job();
  const auto result = execute(job, plan(job), {}, FreeOfCharge());
  EXPECT_NEAR(to_seconds(result.iteration), 1.8433, 0.001 * 1.8433);  // published ideal step
}

// The slowest stage sets the pace: all stages forward, four times the last stage, all others back,
// then what happens once a step; in ms, without transfers:
//   sum F 341.3 + sum B 633.6 + 3 x (139.7 + 203.5) + 131.322 = 2135.8.
// The published replay of this trace takes 2172.7 ms. With the transfers below this is 1.45 % short
// of it, for a reason that the published means do not show.
TEST(Measured, ReplaysAProductionTraceWithActualStages) {
  Job job = traced_job();
  job.measured.forward_ms = {67.0, 67.1, 67.5, 139.7};
  job.measured.backward_ms = {143.1, 143.2, 143.8, 203.5};
  const auto result = execute(job, plan(job), {}, FreeOfCharge());
  const double without_transfers = 0.3413 + 0.6336 + 3 * 0.3432 + 0.131322;
  const double transfers = to_seconds(result.iteration) - without_transfers;
  // 3 forward and 3 backward hops, and up to one between each two passes of the last stage.
  EXPECT_GE(transfers, 6 * 0.0006 - 1e-9);
  EXPECT_LE(transfers, (6 + 7) * 0.0006 + 1e-9);
  EXPECT_EQ(result.bounding_stage, 3);
}

}  // namespace
}  // namespace trainyard
