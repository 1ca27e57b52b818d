#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "core/config/schema.h"
#include "core/error.h"
#include "network_models/collisions.h"
#include "network_models/network_models.h"
#include "network_models/topology.h"

namespace trainyard {
namespace {

// Monte-Carlo draws of equal flows on equal links, one hashing stage (10^5 and more trials).
TEST(Collisions, AgreeWithMonteCarloDraws) {
  const struct {
    std::int64_t flows, links;
    double capacity;
    std::int64_t qps;
    double mean, slowest;
  } rows[] = {{8, 8, 1, 1, .656, .409},    {8, 32, 1, 1, .898, .686},   {32, 32, 1, 1, .638, .295},
              {64, 64, 1, 1, .635, .262},  {16, 16, 2, 1, .908, .688},  {32, 32, 2, 1, .902, .591},
              {64, 32, 2, 1, .734, .380},  {128, 64, 2, 1, .731, .342}, {32, 32, 1, 4, .807, .470},
              {32, 32, 1, 16, .903, .649}, {64, 32, 2, 4, .862, .562}};
  for (const auto& row : rows) {
    const ExpectedRate rate = expected_rate(
        {.flows = row.flows, .links = row.links, .capacity = row.capacity, .qps = row.qps});
    EXPECT_NEAR(rate.mean, row.mean, 0.02 * row.mean) << row.flows << " on " << row.links;
    EXPECT_NEAR(rate.slowest, row.slowest, 0.03 * row.slowest) << row.flows << " on " << row.links;
  }
}

TEST(Collisions, LoneFlowNeverCollides) {
  const ExpectedRate rate = expected_rate({.flows = 1, .links = 32});
  EXPECT_DOUBLE_EQ(rate.mean, 1);
  EXPECT_DOUBLE_EQ(rate.slowest, 1);
}

// 16 queue pairs of 8,192 flows on 18 links: 7,282 parts a link, 16 of them fit at full rate.
TEST(Collisions, ManyPartsShareEvenly) {
  const ExpectedRate rate = expected_rate({.flows = 8192, .links = 18, .qps = 16});
  EXPECT_NEAR(rate.mean, 18.0 / 8192, 1e-5);
  EXPECT_NEAR(rate.slowest, 18.0 / 8192, 1e-5);
  const ExpectedRate fewer = expected_rate({.flows = 512, .links = 18, .qps = 16});
  EXPECT_NEAR(fewer.mean, 18.0 / 512, 0.02 * 18 / 512);
}

// Round numbers: cards of 25 GB/s, ToR sets of 4 nodes with 2 rails, pods of 2 ToR sets.
Cluster small_clos() {
  Cluster cluster;
  cluster.nodes = 16;
  cluster.node.gpus = 2;
  cluster.node.nics = 2;
  cluster.node.nic = gigabytes_per_second(25);
  cluster.node.nvlink = gigabytes_per_second(250);
  cluster.node.pcie = gigabytes_per_second(100);
  cluster.fabric.rails = 2;
  cluster.fabric.nodes_per_tor = 4;
  cluster.fabric.tors_per_pod = 4;
  cluster.fabric.tor_uplinks = 4;
  cluster.fabric.uplink = gigabytes_per_second(25);
  cluster.fabric.base_latency_us = 3;
  cluster.fabric.hop_latency_us = 1;
  return cluster;
}

TEST(Topology, NodesFillTorSetsAndPodsInOrder) {
  const Topology topology(small_clos());
  EXPECT_EQ(topology.tier(NodeId{0}, NodeId{0}), Tier::node);
  EXPECT_EQ(topology.tier(NodeId{0}, NodeId{3}), Tier::tor);
  EXPECT_EQ(topology.tier(NodeId{3}, NodeId{4}), Tier::pod);
  EXPECT_EQ(topology.tier(NodeId{7}, NodeId{8}), Tier::core);
}

TEST(Topology, SingleSwitchHasOneTier) {
  Cluster cluster = small_clos();
  cluster.fabric.kind = "single-switch";
  EXPECT_EQ(Topology(cluster).tier(NodeId{0}, NodeId{15}), Tier::tor);
}

// Latency counts 1, 3 and 5 switches: the first is part of base_latency.
TEST(Topology, LatencyGrowsWithTheTier) {
  const Topology topology(small_clos());
  EXPECT_EQ(topology.latency(Tier::tor), microseconds(3));
  EXPECT_EQ(topology.latency(Tier::pod), microseconds(5));
  EXPECT_EQ(topology.latency(Tier::core), microseconds(7));
}

// 1:7 above the pods and adaptive routing: 8 nodes x 2 flows over 4 x 4 / 7 links leave 1/7.
TEST(Topology, OversubscriptionBindsEvenWithoutCollisions) {
  Cluster cluster = small_clos();
  cluster.fabric.adaptive_routing = true;
  cluster.fabric.oversubscription = 7;
  const Topology topology(cluster);
  EXPECT_DOUBLE_EQ(topology.rate({.tor_flows = 2}).slowest, 1);
  EXPECT_NEAR(topology.rate({.tor_flows = 2, .core_flows = 2}).slowest, 1.0 / 7, 1e-12);
}

class ClosedForms : public testing::Test {
 protected:
  std::unique_ptr<NetworkModel> make(const std::string& model) {
    Job job;
    job.cluster = small_clos();
    job.network.model = model;
    return make_network_model(job);
  }
  static Time time(const NetworkModel& model, int source, int target, int concurrent = 1) {
    return *model.closed_form({.source = RankId{source},
                               .target = RankId{target},
                               .bytes = {25'000'000},
                               .concurrent = concurrent});
  }
};

TEST_F(ClosedForms, FlowTakesLatencyAndBandwidth) {
  const auto ideal = make("ideal");
  EXPECT_EQ(time(*ideal, 0, 1), microseconds(100));               // NVLink, 250 GB/s
  EXPECT_EQ(time(*ideal, 0, 2), microseconds(1000 + 3));          // one card, one switch
  EXPECT_EQ(time(*ideal, 0, 8), microseconds(1000 + 5));          // another ToR set
  EXPECT_EQ(time(*ideal, 0, 16, 4), microseconds(2 * 1000 + 7));  // four flows on two cards
}

// Four nodes send two flows each: 4 flows meet 4 uplinks of every ToR, twice on the way.
TEST_F(ClosedForms, AnalyticChargesExpectedCollisionsAboveTheTor) {
  const auto ideal = make("ideal"), analytic = make("analytic");
  EXPECT_EQ(time(*analytic, 0, 2, 2), time(*ideal, 0, 2, 2));
  const double once = expected_rate({.flows = 4, .links = 4}).mean;
  EXPECT_NEAR(to_microseconds(time(*analytic, 0, 8, 2)), 1000 / (once * once) + 5, 0.01);
}

TEST_F(ClosedForms, FlowsEndInTheOrderOfTheirTimes) {
  const auto model = make("ideal");
  const auto start = [&](int target, std::int64_t bytes) {
    return model->start({.source = RankId{0}, .target = RankId{target}, .bytes = {bytes}}, Time{});
  };
  const FlowId slow = start(2, 25'000'000), quick = start(1, 25'000), cancelled = start(1, 250'000);
  model->cancel(cancelled, Time{});
  std::vector<FlowEnd> ended;
  EXPECT_EQ(model->advance(nanoseconds(50), ended), nanoseconds(50));
  EXPECT_TRUE(ended.empty());
  EXPECT_EQ(model->advance(kNever, ended), nanoseconds(100));
  EXPECT_EQ(model->advance(kNever, ended), microseconds(1003));
  ASSERT_EQ(ended.size(), 2u);
  EXPECT_EQ(ended[0].flow, quick);
  EXPECT_EQ(ended[1].flow, slow);
}

// The schema cannot include the table, so it repeats the names.
TEST(NetworkModels, AreTheChoicesOfTheScenarioKey) {
  std::vector<std::string> choices, models;
  for (const ChoiceText& choice : find_row("network.model")->choices)
    choices.push_back(choice.name);
  for (const NetworkModelInfo& model : network_models()) models.emplace_back(model.name);
  EXPECT_EQ(choices, models);
}

TEST(NetworkModels, UnknownNameListsTheValidOnesAndHelpDescribesThem) {
  try {
    network_model_info("magic");
    FAIL();
  } catch (const ConfigError& error) {
    EXPECT_NE(std::string(error.what()).find("ideal, analytic"), std::string::npos);
  }
  try {
    network_model_info("help");
    FAIL();
  } catch (const ConfigError& error) {
    for (const NetworkModelInfo& model : network_models())
      EXPECT_NE(std::string(error.what()).find(model.summary), std::string::npos);
  }
}

}  // namespace
}  // namespace trainyard
