#include <gtest/gtest.h>

#include "tests/simulator/hand_built.h"

namespace trainyard {
namespace {

Job contended_job(std::int32_t pipeline = 1) {
  Job job = hand_job(2, pipeline);
  job.cluster.gpu.collective_sm_slowdown = 2;
  return job;
}

TEST(Contention, GemmGoesSlowerWhileACollectiveIsInFlight) {
  HandBuilt stage;
  const auto a = stage.kernel(10);
  stage.collective(Group::tensor, 40, Stream::tensor, {a});
  const auto gemm = stage.gemm(100);
  const auto result = run(contended_job(), {stage});
  // 40 ns beside the collective do 20 ns of work, the other 80 go at full speed.
  EXPECT_EQ(end_of(result, 0, gemm), 130);
}

TEST(Contention, KernelsBoundByMemoryKeepTheirSpeed) {
  HandBuilt stage;
  stage.collective(Group::tensor, 40, Stream::tensor);
  const auto kernel = stage.kernel(100);
  EXPECT_EQ(end_of(run(contended_job(), {stage}), 0, kernel), 100);
}

TEST(Contention, QueuedCollectivesFollowEachOther) {
  HandBuilt stage;
  const auto a = stage.kernel(10);
  stage.collective(Group::tensor, 40, Stream::tensor, {a});
  stage.collective(Group::tensor, 40, Stream::tensor);
  const auto gemm = stage.gemm(100);
  EXPECT_EQ(end_of(run(contended_job(), {stage}), 0, gemm), 150);  // 80 beside, 60 alone
}

TEST(Contention, CollectiveThatEndedBeforeHasNoEffect) {
  HandBuilt stage;
  stage.collective(Group::tensor, 40, Stream::tensor);
  stage.kernel(40);
  const auto gemm = stage.gemm(100);
  EXPECT_EQ(end_of(run(contended_job(), {stage}), 0, gemm), 140);
}

TEST(Contention, GemmOnlyPartlyBesideACollectiveIsSlowedInThatPart) {
  HandBuilt stage;
  stage.collective(Group::tensor, 40, Stream::tensor);
  stage.kernel(30);
  const auto gemm = stage.gemm(100);
  EXPECT_EQ(end_of(run(contended_job(), {stage}), 0, gemm), 135);  // 10 beside do 5
}

TEST(Contention, WindowFollowsWhatTheComputeStreamHasWaitedFor) {
  HandBuilt first(0), second(1);
  const auto in = first.recv(1, 0, 1);  // ends at 50
  const auto gathered = first.collective(Group::tensor, 40, Stream::tensor, {in});
  first.collective(Group::tensor, 30, Stream::tensor);  // 90 to 120
  const auto gemm = first.gemm(20, {gathered});
  const auto a = second.kernel(49);
  second.send(-1, 0, 1, {a});
  const auto result = run(contended_job(2), {first, second});
  EXPECT_EQ(end_of(result, 0, gathered), 90);
  EXPECT_EQ(end_of(result, 0, gemm), 125);  // 30 beside do 15, 5 alone
}

TEST(Contention, CountsTheCollectiveOfALateReplicaFromItsOwnArrival) {
  Job job = contended_job();
  job.parallel.data = 2;  // rank = tensor + 2 * data
  job.faults.push_back(late(2, nanoseconds(500)));
  HandBuilt stage;
  const auto a = stage.kernel(10);
  stage.collective(Group::data, 40, Stream::data, {a});
  const auto gemm = stage.gemm(100);
  EXPECT_EQ(end_of(run(job, {stage}), 0, gemm), 130);
}

TEST(Contention, SendTakesComputeUnitsToo) {
  HandBuilt first(0), second(1);
  first.send(1, 0, 40);
  const auto gemm = first.gemm(100);
  second.recv(-1, 0, 40);
  EXPECT_EQ(end_of(run(contended_job(2), {first, second}), 0, gemm), 120);
}

}  // namespace
}  // namespace trainyard
