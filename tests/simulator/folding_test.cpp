#include <gtest/gtest.h>

#include "core/plan/plan.h"
#include "simulator/layout.h"
#include "tests/core/plan/jobs.h"
#include "tests/simulator/hand_built.h"

namespace trainyard {
namespace {

// Rates that make kernels, collectives and messages of the small job comparable.
class SmallCosts final : public Costs {
 public:
  Time kernel(const KernelSpec& kernel) const override {
    return nanoseconds(2000 + static_cast<std::int64_t>(kernel.flops / 1e4) +
                       (kernel.read + kernel.written).value / 1000);
  }
  Time collective(Op op, const GroupShape& shape, Bytes bytes) const override {
    return nanoseconds(3000 + 500 * static_cast<int>(op) + 100 * shape.nodes + bytes.value / 100);
  }
  Time transfer(Bytes bytes, const Route& route) const override {
    return nanoseconds(4000 + (route.tier == Tier::node ? 0 : 1000 * route.concurrent) +
                       bytes.value / 100);
  }
};

void expect_equal(const SimulationResult& a, const SimulationResult& b) {
  EXPECT_EQ(a.stuck, "");
  EXPECT_EQ(a.iteration, b.iteration);
  EXPECT_EQ(a.breakdown, b.breakdown);
  EXPECT_EQ(a.bounding_stage, b.bounding_stage);
  EXPECT_EQ(a.stage_busy, b.stage_busy);
  EXPECT_EQ(a.instructions, b.instructions);
  EXPECT_EQ(a.events, b.events);
  EXPECT_EQ(a.flows, b.flows);
  EXPECT_EQ(a.executed_flops, b.executed_flops);
  ASSERT_EQ(a.trace.size(), b.trace.size());
  for (std::size_t i = 0; i < a.trace.size(); ++i) {
    EXPECT_EQ(a.trace[i].rank, b.trace[i].rank);
    EXPECT_EQ(a.trace[i].instr, b.trace[i].instr);
    EXPECT_EQ(a.trace[i].start, b.trace[i].start);
    EXPECT_EQ(a.trace[i].end, b.trace[i].end);
  }
}

Job planned_job(std::int32_t tensor, std::int32_t pipeline, std::int32_t data) {
  Job job = small_job(tensor, pipeline, data);
  job.parallel.sequence = tensor > 1;
  job.cluster.gpu.collective_sm_slowdown = 1.3;
  job.cluster.gpu.host_launch_us = 3;
  job.cluster.node.pcie = {1e9};
  job.cluster.node.load_sequence_us = 10;
  return job;
}

std::vector<Job> planned_jobs() {
  std::vector<Job> jobs{planned_job(1, 1, 1), planned_job(4, 2, 3), planned_job(2, 4, 4),
                        planned_job(8, 2, 2), planned_job(2, 1, 8), planned_job(1, 4, 4)};
  jobs[1].schedule.overlap = {true, true, true, true, true};
  jobs[1].parallel.zero = 2;
  jobs[2].parallel.virtual_stages = 2;
  jobs[2].schedule.pipeline = Order::interleaved_1f1b;
  jobs[2].schedule.overlap.pipeline = true;
  jobs[2].parallel.zero = 1;
  jobs[3].schedule.pipeline = Order::gpipe;
  jobs[4].parallel.zero = 3;
  jobs[5].schedule.pipeline = Order::zb_h1;
  jobs.push_back(planned_job(2, 2, 3));
  jobs.back().parallel.context = 2;
  jobs.back().parallel.zero = 1;
  jobs.back().cluster.nodes = 3;
  return jobs;
}

SimulationOptions options(bool fold, int threads, const Job& job) {
  SimulationOptions options;
  options.fold = fold;
  options.threads = threads;
  options.traced = {RankId(0), RankId(job.gpus() / 2), RankId(job.gpus() - 1)};
  return options;
}

TEST(Folding, GivesWhatEveryRankByItselfGives) {
  for (const Job& job : planned_jobs()) {
    const ProgramSet programs = plan(job);
    SCOPED_TRACE(job.parallel.tensor * 100 + job.parallel.pipeline * 10 + job.parallel.data);
    expect_equal(execute(job, programs, options(true, 1, job), SmallCosts()),
                 execute(job, programs, options(false, 1, job), SmallCosts()));
  }
}

TEST(Folding, DisturbedReplicasStayByThemselves) {
  for (Job job : planned_jobs()) {
    job.faults = {slow(job.gpus() / 2, 1.7, microseconds(50)), late(0, microseconds(33))};
    const ProgramSet programs = plan(job);
    expect_equal(execute(job, programs, options(true, 1, job), SmallCosts()),
                 execute(job, programs, options(false, 1, job), SmallCosts()));
  }
}

TEST(ThreadFreeResults, AnyNumberOfThreadsGivesTheSame) {
  for (Job job : planned_jobs()) {
    job.faults = {jitter(0.05), slow(1 % job.gpus(), 1.4)};
    const ProgramSet programs = plan(job);
    const auto one = execute(job, programs, options(false, 1, job), SmallCosts());
    for (const int threads : {2, 3})
      expect_equal(execute(job, programs, options(false, threads, job), SmallCosts()), one);
  }
}

Layout layout_of(const Job& job, bool fold = true) {
  HandBuilt stage;
  stage.collective(Group::tensor, 1, Stream::tensor);
  stage.collective(Group::data, 1, Stream::data);
  const RankTopology topology(
      job, set_of(std::vector<HandBuilt>(static_cast<std::size_t>(job.stages()), stage)));
  return make_layout(topology, Disturbances(job, topology.mesh(), topology.placement()), fold);
}

TEST(Layout, EqualRanksBecomeOneLaneAStage) {
  const Layout layout = layout_of(hand_job(8, 2, 4));
  EXPECT_EQ(layout.lanes, 1);
  EXPECT_EQ(layout.replicas, std::vector<std::int32_t>{0});
  EXPECT_EQ(layout.stands_for, std::vector<std::int64_t>{32});
}

TEST(Layout, WithoutFoldingEveryRankIsALane) {
  const Layout layout = layout_of(hand_job(8, 2, 4), false);
  EXPECT_EQ(layout.lanes, 8);
  EXPECT_EQ(layout.islands(), 4);
}

TEST(Layout, DisturbedReplicaIsNotFolded) {
  Job job = hand_job(8, 2, 4);
  job.faults.push_back(slow(9, 2));  // data coordinate 1
  const Layout layout = layout_of(job);
  EXPECT_EQ(layout.lanes, 8);
  EXPECT_EQ(layout.replicas, (std::vector<std::int32_t>{0, 1}));
  EXPECT_EQ(layout.replica_of, (std::vector<std::int32_t>{0, 1, 0, 0}));
  EXPECT_EQ(layout.stands_for, (std::vector<std::int64_t>{3, 1}));
}

TEST(Layout, TensorGroupAcrossNodesIsNotFoldedWithOneInside) {
  Job job = hand_job(4, 1, 4);  // 16 ranks on two nodes; swap a rank of replica 1 with one of 2
  job.parallel.placement = {0, 1, 2, 3, 4, 5, 6, 8, 7, 9, 10, 11, 12, 13, 14, 15};
  const Layout layout = layout_of(job);
  EXPECT_EQ(layout.replica_of[0], layout.replica_of[3]);
  EXPECT_NE(layout.replica_of[0], layout.replica_of[1]);
}

}  // namespace
}  // namespace trainyard
