#include "core/config/job.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <numeric>

#include "tests/core/config/toy.h"

namespace trainyard {
namespace {

Job small() {
  Job job;
  job.parallel.tensor = 2, job.parallel.pipeline = 3, job.parallel.data = 4;
  job.batch.global_sequences = 96, job.batch.micro_sequences = 2;
  return job;
}

// litgpt#1947: accumulation steps are global / (micro x data), whatever the number of nodes.
TEST(JobMicroBatches, AreGlobalOverMicroTimesDataOnAnyNumberOfNodes) {
  Job job = small();
  for (std::int32_t nodes : {1, 2, 3}) {
    job.cluster.nodes = nodes;
    EXPECT_EQ(job.micro_batches(), 12);  // 96 / (2 x 4)
  }
}

TEST(JobMesh, HoldsEveryRankInTheOrderAsked) {
  Job job = small();
  const Mesh usual = job.mesh();
  EXPECT_EQ(usual.size(), job.gpus());
  EXPECT_EQ(usual.stride(Axis::tensor), 1);
  EXPECT_EQ(usual.stride(Axis::data), 2);
  EXPECT_EQ(usual.stride(Axis::pipeline), 8);
  job.parallel.order = {Axis::pipeline, Axis::tensor, Axis::data};
  EXPECT_EQ(job.mesh().stride(Axis::pipeline), 1);
  EXPECT_EQ(job.mesh().stride(Axis::tensor), 3);
  EXPECT_EQ(job.mesh().stride(Axis::data), 6);
}

TEST(JobMesh, PutsUnnamedContextAndExpertAxesRightOutsideTensor) {
  Job job = small();
  job.parallel.context = 5, job.parallel.expert = 7;
  EXPECT_EQ(job.mesh().stride(Axis::context), 2);
  EXPECT_EQ(job.mesh().stride(Axis::expert), 10);
  EXPECT_EQ(job.mesh().stride(Axis::data), 70);
}

TEST(JobPlacement, IsContiguousUnlessListed) {
  const Job job = toy_job();
  EXPECT_EQ(job.placement().node(RankId(9)), NodeId(1));
  std::vector<int> slots(32);
  std::iota(slots.rbegin(), slots.rend(), 0);
  const Placement reversed =
      toy_job({fmt::format("parallel.placement=[{}]", fmt::join(slots, ","))}).placement();
  EXPECT_EQ(reversed.node(RankId(0)), NodeId(3));
  EXPECT_EQ(reversed.gpu(RankId(0)), 7);
}

TEST(Measured, AreAnyAsSoonAsOneIsGiven) {
  EXPECT_FALSE(Measured{}.any());
  Measured forward;
  forward.forward_ms = {1.0};
  EXPECT_TRUE(forward.any());
  Measured optimizer;
  optimizer.optimizer_ms = 0;  // measured as nothing is still measured
  EXPECT_TRUE(optimizer.any());
}

}  // namespace
}  // namespace trainyard
