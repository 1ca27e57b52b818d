// Collectives over two binary trees of nodes as flows.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "simulator/wiring.h"
#include "tests/simulator/flow_job.h"
#include "tests/simulator/profiles.h"

namespace trainyard {
namespace {

// The picture in NCCL's src/graph/trees.cc: 0 above 8, 8 above 4 and 12, 4 above 2 and 6, and so
// on; what is above the last node falls to the one below.
TEST(BinaryTrees, AreNccls) {
  EXPECT_EQ(tree_parents(14, false),
            (std::vector<std::int32_t>{-1, 2, 4, 2, 8, 6, 4, 6, 0, 10, 12, 10, 8, 12}));
  // Mirrored where the number is even, shifted by one where it is odd: but for node 0 of an odd
  // number, every node is a leaf in one.
  for (const int nodes : {2, 3, 6, 7, 16, 191, 1536}) {
    std::vector<int> parent_in(static_cast<std::size_t>(nodes)), roots(2);
    for (const bool second : {false, true}) {
      std::vector<bool> is_parent(static_cast<std::size_t>(nodes));
      for (const std::int32_t parent : tree_parents(nodes, second)) {
        if (parent < 0)
          ++roots[second ? 1 : 0];
        else
          is_parent[static_cast<std::size_t>(parent)] = true;
      }
      for (std::size_t node = 0; node < is_parent.size(); ++node)
        parent_in[node] += is_parent[node] ? 1 : 0;
    }
    EXPECT_EQ(roots, (std::vector<int>{1, 1})) << nodes;
    EXPECT_EQ(std::ranges::count(parent_in, 2), nodes % 2) << nodes;
  }
}

SimulationResult run_trees(const Job& job, const std::vector<HandBuilt>& stages) {
  return run_flows(job, stages, {}, Wiring::tree);
}

// Four nodes: 2 is above 1 and 3 and below 0, so three edges leave its card, and three come in. 400
// bytes are too few for a second tree: 1,200 ns, 3 of latency, 10 of protocol.
TEST(TreeTraffic, MovesAtThePaceOfTheNodeWithTheMostEdges) {
  HandBuilt stage;
  const auto reduced = stage.collective(Group::data, 400, Stream::data);
  const auto result = run_trees(flow_job(1, 4), {stage});
  for (int rank = 0; rank < 4; ++rank) EXPECT_EQ(end_of(result, rank, reduced), 1200 + 3 + 10);
  EXPECT_EQ(part(result, Cause::data_comm), 1213);
}

// 8,192 bytes take both trees: three edges of one and one of the other on the cards of nodes 1
// and 2.
TEST(TreeTraffic, BothTreesShareTheCards) {
  HandBuilt stage;
  const auto reduced = stage.collective(Group::data, 8192, Stream::data);
  EXPECT_EQ(end_of(run_trees(flow_job(1, 4), {stage}), 0, reduced), 4 * 4096 + 3 + 10);
}

// Two nodes: one edge of each tree in each direction.
TEST(TreeTraffic, TwoNodesHaveADirectionForEachTree) {
  HandBuilt stage;
  const auto reduced = stage.collective(Group::data, 8192, Stream::data);
  EXPECT_EQ(end_of(run_trees(flow_job(1, 2), {stage}), 0, reduced), 2 * 4096 + 3 + 10);
}

// The card of node 2 is half as fast: its three edges set the pace. That of leaf 3 may be: it has
// one edge.
TEST(TreeTraffic, ASlowLinkHoldsUpTheWholeTree) {
  HandBuilt stage;
  const auto reduced = stage.collective(Group::data, 400, Stream::data);
  Job job = flow_job(1, 4);
  job.faults.push_back(parse_fault("link_slow link=nic_out:2 factor=2"));
  EXPECT_EQ(end_of(run_trees(job, {stage}), 0, reduced), 2400 + 3 + 10);
  job.faults = {parse_fault("link_slow link=nic_out:3 factor=2")};
  EXPECT_EQ(end_of(run_trees(job, {stage}), 0, reduced), 1200 + 3 + 10);
}

// The gradient norm of the world and of one replica's stages, a rank a node.
TEST(TreeTraffic, JoinsAllRanksOfTheWorldAndOfAReplica) {
  HandBuilt first(0), second(1);
  const auto a = first.kernel(20);
  const auto world = first.collective(Group::world, 400, Stream::data, {a});
  second.collective(Group::world, 400, Stream::data);
  const auto both = run_trees(flow_job(2, 2), {first, second});
  for (int rank = 0; rank < 2; ++rank) EXPECT_EQ(end_of(both, rank, world), 20 + 1200 + 3 + 10);

  std::vector<HandBuilt> stages;
  for (int stage = 0; stage < 4; ++stage) stages.emplace_back(stage);
  for (HandBuilt& stage : stages) stage.collective(Group::model, 400, Stream::data);
  for (const int replicas : {1, 2}) {
    const auto result = run_trees(flow_job(4, replicas), stages);
    EXPECT_EQ(result.failure + result.stuck, "");
    for (int rank = 0; rank < 4 * replicas; ++rank)
      EXPECT_EQ(end_of(result, rank, 0), 1200 + 3 + 10) << rank;
  }
}

// Two ranks of a tensor group have different cards, and wait for the slower one's tree in a world.
TEST(TreeTraffic, WorldCollectivesEndTogetherOnAllLanes) {
  HandBuilt stage;
  const auto world = stage.collective(Group::world, 400, Stream::data);
  Job job = flow_job(1, 2);
  job.parallel.tensor = 2;
  job.cluster.nodes = 4;
  job.faults.push_back(late(1, nanoseconds(50)));
  const auto result = run_trees(job, {stage});
  for (int rank = 0; rank < 4; ++rank) EXPECT_EQ(end_of(result, rank, world), 50 + 1200 + 3 + 10);
}

TEST(TreeTraffic, ADeadLinkEndsTheStepWithBothEndsNamed) {
  HandBuilt stage;
  stage.collective(Group::world, 400, Stream::data);
  Job job = flow_job(1, 4);
  job.faults.push_back(parse_fault("link_down link=nic_out:3"));
  EXPECT_THAT(run_trees(job, {stage}).failure, testing::HasSubstr("GPU 0 of node 3"));
}

// Sixteen nodes below one switch a rail: what closed forms say, whichever algorithm NCCL takes.
TEST(TreeTraffic, TakesWhatClosedFormsSayWhereNothingIsInTheWay) {
  for (const std::int64_t bytes : {8LL, 4LL << 10, 1LL << 20, 32LL << 20}) {
    for (const int data : {16, 128}) {
      HandBuilt stage;
      stage.collective(Group::world, bytes, Stream::data);
      Job job = hand_job(1, 1, data);
      job.cluster = load_cluster("megascale-a100", 16);
      job.cluster.node.gpus = job.cluster.node.nics = data / 16;
      job.cluster.fabric.kind = "single-switch";
      job.cluster.fabric.rails = data / 16;
      job.network.model = "flow";
      const double flows = to_seconds(execute(job, set_of({stage}), {}, ModelCosts(job)).iteration);
      job.network.model = "ideal";
      const double ideal = to_seconds(execute(job, set_of({stage}), {}, ModelCosts(job)).iteration);
      EXPECT_NEAR(flows, ideal, 0.001 * ideal) << bytes << " bytes over " << data;
    }
  }
}

// A message on the way alone: NCCL's kernels are slower amid a training step, sends as well.
TEST(MessageTraffic, TakesInTrainingTimesAsLongWhicheverNetworkCarriesIt) {
  HandBuilt first, last(1);
  first.send(1, 0, 6 << 20);
  last.recv(-1, 0, 6 << 20);
  Job job = hand_job(1, 2, 1);
  job.cluster = load_cluster("megascale-a100", 2);
  job.cluster.node.gpus = job.cluster.node.nics = job.cluster.fabric.rails = 1;
  job.cluster.gpu.host_launch_us = 0;
  for (const char* model : {"ideal", "flow"}) {
    job.network.model = model;
    const auto time = [&](double in_training) {
      job.cluster.nccl.in_training = in_training;
      return to_seconds(execute(job, set_of({first, last}), {}, ModelCosts(job)).iteration);
    };
    EXPECT_GT(time(1), 6 * 1.048576e6 / 25e9) << model;
    EXPECT_NEAR(time(1.5), 1.5 * time(1), 1e-8) << model;
  }
}

}  // namespace
}  // namespace trainyard
