#include <gtest/gtest.h>

#include <cmath>

#include "tests/simulator/hand_built.h"

namespace trainyard {
namespace {

TEST(Disturbance, SlowRankIsSlowOnlyWhileTheFaultLasts) {
  Job job = hand_job();
  job.faults.push_back(slow(0, 2, nanoseconds(50), nanoseconds(30)));
  HandBuilt stage;
  stage.kernel(100);
  // 50 of work, then 15 in the 30 ns of the fault, then the last 35.
  EXPECT_EQ(run(job, {stage}).iteration, nanoseconds(115));
}

TEST(Disturbance, SlowNodeSlowsItsOwnRanks) {
  Job job = hand_job(1, 1, 16);
  job.faults.push_back(slow(-1, 1.5));
  job.faults.back().node = 1;
  HandBuilt stage;
  const auto kernel = stage.kernel(100);
  const auto result = run(job, {stage});
  EXPECT_EQ(end_of(result, 7, kernel), 100);
  EXPECT_EQ(end_of(result, 8, kernel), 150);
  EXPECT_EQ(result.stage_busy[0], nanoseconds(125));
}

TEST(Disturbance, DelayBeforeABarrierDelaysItsEndByExactlyThat) {
  HandBuilt stage;
  const auto a = stage.kernel(1000);
  stage.collective(Group::world, 70, Stream::data, {a});
  Job job = hand_job(2, 1, 4);
  const Time before = run(job, {stage}).iteration;
  job.faults.push_back(late(5, nanoseconds(123)));
  const auto result = run(job, {stage});
  EXPECT_EQ(before, nanoseconds(1070));
  EXPECT_EQ(result.iteration, nanoseconds(1193));
  EXPECT_EQ(part(result, Cause::straggler), 123);
  EXPECT_EQ(part(result, Cause::data_comm), 70);
}

TEST(Disturbance, ExcessOfASlowRankOnThePathIsItsStraggling) {
  Job job = hand_job(1, 1, 8);
  job.faults.push_back(slow(3, 1.25));
  HandBuilt stage;
  const auto a = stage.kernel(400);
  stage.collective(Group::data, 50, Stream::data, {a});
  const auto result = run(job, {stage});
  EXPECT_EQ(result.iteration, nanoseconds(550));
  EXPECT_EQ(part(result, Cause::straggler), 100);
  EXPECT_EQ(part(result, Cause::compute), 400);
}

HandBuilt many_kernels() {
  HandBuilt stage;
  for (int i = 0; i < 2000; ++i) stage.kernel(1'000'000);
  return stage;
}

TEST(Disturbance, JitterLengthensKernelsByHalfNormalDraws) {
  Job job = hand_job(1, 1, 4);
  job.faults.push_back(jitter(0.1));
  const auto result = run(job, {many_kernels()});
  for (const TraceEvent& event : result.trace) EXPECT_GE(event.end - event.start, seconds(1e-3));
  // mean of |N(0, sigma)| is sigma sqrt(2 / pi), its deviation sigma sqrt(1 - 2 / pi);
  // four standard errors of the mean of 8000 draws
  const double mean = ratio(result.stage_busy[0], seconds(2)) - 1;
  EXPECT_NEAR(mean, 0.1 * std::sqrt(2 / M_PI), 4 * 0.1 * std::sqrt((1 - 2 / M_PI) / 8000));
}

TEST(Disturbance, JitterDependsOnSeedAndRankAndNothingElse) {
  Job job = hand_job(1, 1, 2);
  job.faults.push_back(jitter(0.1));
  const HandBuilt stage = many_kernels();
  const auto once = run(job, {stage}), again = run(job, {stage});
  EXPECT_EQ(end_of(once, 0, 1999), end_of(again, 0, 1999));
  EXPECT_NE(end_of(once, 0, 1999), end_of(once, 1, 1999));
  job.parallel.data = 4;  // more ranks do not shift anybody's draws
  EXPECT_EQ(end_of(once, 1, 1999), end_of(run(job, {stage}), 1, 1999));
  job.seed = 2;
  EXPECT_NE(end_of(once, 0, 1999), end_of(run(job, {stage}), 0, 1999));
}

}  // namespace
}  // namespace trainyard
