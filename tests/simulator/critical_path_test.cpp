#include <gtest/gtest.h>

#include <numeric>

#include "tests/simulator/hand_built.h"

namespace trainyard {
namespace {

TEST(CriticalPath, PartsAreWhatTheStepWasBoundBy) {
  Job job = hand_job(2, 1, 2);
  HandBuilt stage;
  stage.pass(PassKind::setup);
  const auto params = stage.collective(Group::data, 100, Stream::data);
  stage.pass(PassKind::forward);
  const auto a = stage.kernel(30, {params});
  const auto b = stage.collective(Group::tensor, 7, Stream::tensor, {a});
  stage.pass(PassKind::backward);
  const auto c = stage.kernel(60, {b});
  stage.pass(PassKind::optimizer);
  const auto d = stage.collective(Group::world, 5, Stream::data, {c});
  stage.kernel(11, {d});
  const auto result = run(job, {stage});
  EXPECT_EQ(result.iteration, nanoseconds(213));
  EXPECT_EQ(part(result, Cause::data_comm), 105);
  EXPECT_EQ(part(result, Cause::compute), 90);
  EXPECT_EQ(part(result, Cause::tensor_comm), 7);
  EXPECT_EQ(part(result, Cause::optimizer), 11);
}

TEST(CriticalPath, WhatIsHiddenCostsNothing) {
  HandBuilt stage;
  stage.pass(PassKind::forward);
  const auto a = stage.kernel(10);
  const auto b = stage.collective(Group::tensor, 50, Stream::tensor, {a});
  const auto c = stage.kernel(45);
  stage.kernel(1, {b});
  const auto result = run(hand_job(2), {stage});
  EXPECT_EQ(end_of(result, 0, c), 55);
  EXPECT_EQ(result.iteration, nanoseconds(61));
  EXPECT_EQ(part(result, Cause::tensor_comm), 50);  // the longer of two ways
  EXPECT_EQ(part(result, Cause::compute), 11);
}

TEST(CriticalPath, SlowestStageBoundsAndOthersAreItsBubble) {
  // Three stages, four micro-batches; the middle one takes three times as long.
  auto stages = one_f_one_b({3, 4, 10, 20});
  HandBuilt middle(1);
  for (int mb = 0; mb < 4; ++mb) {
    if (mb == 0) add_forward(middle, {3, 4, 30, 60}, 1, 0);
    if (mb + 1 < 4) add_forward(middle, {3, 4, 30, 60}, 1, mb + 1);
    add_backward(middle, {3, 4, 30, 60}, 1, mb);
  }
  stages[1] = middle;
  const auto result = run(hand_job(1, 3), stages);
  EXPECT_EQ(result.bounding_stage, 1);
  // Before its first forward stage 0 runs one (10), after its last backward stage 0 runs one (20);
  // meanwhile stage 2 answers a forward with 30 ns, hidden behind the next forward.
  EXPECT_EQ(result.iteration, nanoseconds(10 + 4 * 90 + 20));
  EXPECT_EQ(part(result, Cause::compute), 360);
  EXPECT_EQ(part(result, Cause::bubble), 30);
}

TEST(CriticalPath, ReachesAnIslandThroughItsLateMember) {
  Job job = hand_job(2, 2, 6);
  job.faults.push_back(slow(13, 3));  // tensor 1, data 0, stage 1
  job.faults.push_back(jitter(0.01));
  std::vector<HandBuilt> stages;
  for (int s = 0; s < 2; ++s) {
    HandBuilt& stage = stages.emplace_back(s);
    stage.pass(PassKind::forward);
    auto a = stage.kernel(1000);
    for (int i = 0; i < 20; ++i) {
      const auto b = stage.collective(Group::tensor, 10, Stream::tensor, {a});
      const auto c = stage.collective(Group::data, 10, Stream::data, {b});
      a = stage.kernel(1000, {c});
    }
    stage.collective(Group::world, 10, Stream::data, {a});
  }
  const auto result = run(job, stages);
  EXPECT_EQ(result.bounding_stage, 1);
  EXPECT_EQ(part(result, Cause::tensor_comm), 200);
  EXPECT_EQ(part(result, Cause::data_comm), 210);
  EXPECT_EQ(part(result, Cause::compute), 21'000);
  EXPECT_GE(part(result, Cause::straggler), 42'000);
  EXPECT_EQ(std::accumulate(result.breakdown.begin(), result.breakdown.end(), Time{}),
            result.iteration);
}

}  // namespace
}  // namespace trainyard
