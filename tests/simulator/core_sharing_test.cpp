#include <gtest/gtest.h>

#include "tests/simulator/hand_built.h"

namespace trainyard {
namespace {

Job on_cores(Job job, std::int32_t cores, std::int32_t threads = 1) {
  job.cluster.node.cores = cores;
  job.running.threads = threads;
  return job;
}

TEST(SharedCores, RanksThatWorkAtOnceHalveTheCore) {
  HandBuilt stage;
  stage.kernel(100);
  EXPECT_EQ(run(on_cores(hand_job(1, 1, 2), 1), {stage}).iteration, nanoseconds(200));
  EXPECT_EQ(run(on_cores(hand_job(1, 1, 2), 2), {stage}).iteration, nanoseconds(100));
}

// 100 and 300 on one core: until 200 both get half, then 200 are left of the second.
TEST(SharedCores, WhoIsLeftAloneGoesOnAtFullSpeed) {
  HandBuilt first(0), second(1);
  first.kernel(100);
  second.kernel(300);
  const auto result = run(on_cores(hand_job(1, 2), 1), {first, second});
  EXPECT_EQ(end_of(result, 0, 0), 200);
  EXPECT_EQ(end_of(result, 1, 0), 400);
}

// A pipeline that takes turns loses nothing on a single core.
TEST(SharedCores, WhoWaitsLeavesTheCoreToOthers) {
  HandBuilt first(0), second(1);
  first.send(1, 0, 10, {first.kernel(100)});
  second.kernel(100, {second.recv(-1, 0, 10)});
  EXPECT_EQ(run(on_cores(hand_job(1, 2), 1), {first, second}).iteration, nanoseconds(210));
}

// Three ranks on two cores go at two thirds.
TEST(SharedCores, MoreRanksThanCoresShareThemEvenly) {
  HandBuilt stage;
  stage.kernel(100);
  stage.collective(Group::data, 7, Stream::data, {0});
  EXPECT_EQ(run(on_cores(hand_job(1, 1, 3), 2), {stage}).iteration, nanoseconds(157));
}

// Ranks 0 and 2 have the first of two cores, 1 and 3 the second.
TEST(SharedCores, BoundRanksLeaveIdleCoresIdle) {
  std::vector<HandBuilt> stages;
  for (std::int32_t s = 0; s < 4; ++s) stages.emplace_back(s);
  stages[0].kernel(100);
  stages[2].kernel(100);
  Job job = on_cores(hand_job(1, 4), 2);
  EXPECT_EQ(run(job, stages).iteration, nanoseconds(200));
  job.running.bind_to_cores = false;
  EXPECT_EQ(run(job, stages).iteration, nanoseconds(100));
}

TEST(SharedCores, KernelsTakeAsManyCoresAsTheyHaveThreads) {
  HandBuilt stage;
  stage.kernel(100);
  EXPECT_EQ(run(on_cores(hand_job(), 2, 2), {stage}).iteration, nanoseconds(100));
  EXPECT_EQ(run(on_cores(hand_job(1, 1, 2), 2, 2), {stage}).iteration, nanoseconds(200));
}

TEST(SharedCores, EachNodeHasItsOwn) {
  HandBuilt stage;
  stage.kernel(100);
  Job job = on_cores(hand_job(1, 1, 4), 1);
  job.cluster.node.gpus = 2;
  job.cluster.nodes = 2;
  EXPECT_EQ(run(job, {stage}).iteration, nanoseconds(200));
}

TEST(SharedCores, ASlowRankWorksLonger) {
  HandBuilt stage;
  stage.kernel(100);
  Job job = on_cores(hand_job(1, 1, 2), 2);
  job.faults = {slow(1, 1.5), late(0, nanoseconds(30))};
  const auto result = run(job, {stage});
  EXPECT_EQ(end_of(result, 0, 0), 130);
  EXPECT_EQ(end_of(result, 1, 0), 150);
}

// With a core for each rank the walk from event to event must find what the one that runs ahead
// finds, through transfers, collectives of all groups and waits between streams.
TEST(SharedCores, WithACoreForEachRankNothingChanges) {
  const PipelineShape shape{3, 5, 70, 130, 9};
  std::vector<HandBuilt> stages = one_f_one_b(shape);
  for (HandBuilt& stage : stages) {
    const auto a = stage.collective(Group::tensor, 11, Stream::tensor);
    const auto b = stage.collective(Group::data, 40, Stream::data, {a});
    stage.kernel(25, {b});
    stage.collective(Group::world, 5, Stream::data, {a});
  }
  const Job job = hand_job(2, 3, 2);
  const auto alone = run(job, stages), shared = run(on_cores(job, 64), stages);
  ASSERT_EQ(shared.trace.size(), alone.trace.size());
  for (std::size_t i = 0; i < alone.trace.size(); ++i) {
    EXPECT_EQ(shared.trace[i].start, alone.trace[i].start) << i;
    EXPECT_EQ(shared.trace[i].end, alone.trace[i].end) << i;
  }
}

// UnitCosts, and each member works twice a collective's bytes before it.
class WorkingCosts final : public Costs {
 public:
  Time kernel(const KernelSpec& spec) const override { return plain_.kernel(spec); }
  Time collective(Op op, const GroupShape& shape, Bytes bytes) const override {
    return plain_.collective(op, shape, bytes);
  }
  Time transfer(Bytes bytes, const Route& route) const override {
    return plain_.transfer(bytes, route);
  }
  Time collective_work(Op, const GroupShape&, Bytes bytes) const override {
    return nanoseconds(2 * bytes.value);
  }
  Time transfer_work(Bytes bytes) const override { return nanoseconds(3 * bytes.value); }

 private:
  UnitCosts plain_;
};

// Kernel 100; the collective's work of 20 on each of four ranks that share two cores, then 10.
TEST(SharedCores, CommunicationWorksBeforeItWaits) {
  HandBuilt stage;
  stage.collective(Group::data, 10, Stream::data, {stage.kernel(100)});
  SimulationOptions options;
  options.traced = {RankId(0)};
  const auto result =
      execute(on_cores(hand_job(1, 1, 4), 2), set_of({stage}), options, WorkingCosts());
  EXPECT_EQ(result.iteration, nanoseconds(2 * 100 + 2 * 20 + 10));
  EXPECT_EQ(start_of(result, 0, 1), 200);  // its work is part of it
  EXPECT_EQ(part(result, Cause::data_comm), 50);
}

// Both sides of a message work 30, on cores of their own at once.
TEST(SharedCores, MessagesWorkOnBothSides) {
  HandBuilt first(0), second(1);
  first.send(1, 0, 10, {first.kernel(100)});
  second.kernel(100, {second.recv(-1, 0, 10)});
  EXPECT_EQ(
      execute(on_cores(hand_job(1, 2), 2), set_of({first, second}), {}, WorkingCosts()).iteration,
      nanoseconds(100 + 30 + 10 + 100));
}

}  // namespace
}  // namespace trainyard
