#include <gtest/gtest.h>

#include "tests/simulator/hand_built.h"

namespace trainyard {
namespace {

HandBuilt ten_small_kernels() {
  HandBuilt stage;
  for (int i = 0; i < 10; ++i) stage.kernel(1000);
  return stage;
}

TEST(HostIssue, ManySmallKernelsAreBoundByTheHost) {
  Job job = hand_job();
  job.cluster.gpu.host_launch_us = 5;
  const auto result = run(job, {ten_small_kernels()});
  EXPECT_EQ(result.iteration, microseconds(51));  // ten launches, then the last kernel
  EXPECT_EQ(part(result, Cause::other), 50'000);
  EXPECT_EQ(part(result, Cause::compute), 1'000);
}

TEST(HostIssue, GraphsRemoveTheBound) {
  Job job = hand_job();
  job.cluster.gpu.host_launch_us = 5;
  job.cluster.gpu.graph_launch_us = 0.5;
  job.software.cuda_graphs = true;
  EXPECT_EQ(run(job, {ten_small_kernels()}).iteration, nanoseconds(10'500));
}

// CUDA_LAUNCH_BLOCKING: the GPU idles before each of ten kernels of 1 us.
TEST(HostIssue, BlockingLaunchesIdleBeforeEveryKernel) {
  Job job = hand_job();
  job.software.launch_blocking_us = 5;
  EXPECT_EQ(run(job, {ten_small_kernels()}).iteration, microseconds(60));
}

TEST(HostIssue, LaunchesCanBeMadeFreeForAQuestion) {
  Job job = hand_job();
  job.cluster.gpu.host_launch_us = 5;
  SimulationOptions options = every_lane();
  options.scale.launch = 0;
  EXPECT_EQ(run(job, {ten_small_kernels()}, options).iteration, microseconds(10));
}

TEST(HostIssue, PauseDelaysOnlyWhatWasNotIssued) {
  Job job = hand_job();
  job.software.garbage_collection_ms = 3;
  HandBuilt stage;
  stage.kernel(5e6);
  const auto pause = stage.host(HostWork::garbage_collection);
  const auto next = stage.kernel(1e6);
  auto result = run(job, {stage});
  EXPECT_EQ(end_of(result, 0, pause), 3'000'000);
  EXPECT_EQ(start_of(result, 0, next), 5'000'000);
  job.software.garbage_collection_ms = 8;
  result = run(job, {stage});
  EXPECT_EQ(start_of(result, 0, next), 8'000'000);
  EXPECT_EQ(part(result, Cause::other), 8'000'000);
}

TEST(HostIssue, ReadingAScalarWaitsForTheDevice) {
  Job job = hand_job();
  job.cluster.gpu.host_launch_us = 5;
  HandBuilt stage;
  const auto a = stage.kernel(100'000);
  const auto read = stage.host(HostWork::read_scalar, {a});
  const auto b = stage.kernel(1'000);
  const auto result = run(job, {stage});
  EXPECT_EQ(end_of(result, 0, read), 110'000);  // 5 launch, 100 kernel, 5 copy
  EXPECT_EQ(start_of(result, 0, b), 115'000);
}

TEST(HostIssue, LoaderThreadDoesNotBlockTheIssue) {
  Job job = hand_job();
  job.measured.data_loading_ms = 1;
  HandBuilt stage;
  const auto load = stage.host(HostWork::load_batch, {}, Stream::copy);
  const auto kernel = stage.kernel(10);
  const auto result = run(job, {stage});
  EXPECT_EQ(end_of(result, 0, load), 1'000'000);
  EXPECT_EQ(end_of(result, 0, kernel), 10);
}

TEST(HostIssue, LoadingOnTheIssuingThreadIsADataStall) {
  Job job = hand_job();
  job.measured.data_loading_ms = 1;
  HandBuilt stage;
  stage.host(HostWork::load_batch);
  stage.kernel(10);
  const auto result = run(job, {stage});
  EXPECT_EQ(result.iteration, nanoseconds(1'000'010));
  EXPECT_EQ(part(result, Cause::data_stall), 1'000'000);
}

}  // namespace
}  // namespace trainyard
