#include "network_models/flow/dynamics.h"

#include <gtest/gtest.h>

#include "network_models/flow/flow_model.h"
#include "tests/network_models/one_card_nodes.h"

namespace trainyard {
namespace {

constexpr double k200G = 25e9;  // 200 Gb/s

class FlowDynamics : public OneCardNodes<FlowModel> {
 protected:
  FlowDynamics() : OneCardNodes(k200G, 4) {}
  void build(int nodes, int below, const char* control) {
    OneCardNodes::build(nodes, below, {"flow", 1, control});
  }
  double rate(FlowId flow) { return model->rate(flow).value / k200G; }
};

TEST_F(FlowDynamics, AloneNoFlowIsHeldBack) {
  for (const char* control : {"none", "dcqcn", "swift", "hybrid"}) {
    build(4, 4, control);
    start(0, 1, 25e6);
    start(2, 3, 50e6);
    const auto ended = drain();
    EXPECT_EQ(ended.front().at, microseconds(1004)) << control;
    EXPECT_EQ(ended.back().at, microseconds(2004)) << control;
    EXPECT_EQ(model->dynamics()->events(), 0) << control;
  }
}

// Two cards at line rate fill a queue at 25 GB/s. 200 Gb/s: marks begin at 800 KB, after 32 us.
// Each mark halves a rate while alpha is near 1, so a millisecond later both have left the port
// idle for a while, and more was lost than with ideal control.
TEST_F(FlowDynamics, DcqcnFlowsLoseTimeAfterTheyMeet) {
  build(3, 3, "dcqcn");
  const FlowId first = start(0, 2, 50e6), second = start(1, 2, 50e6);
  const auto port = static_cast<std::int32_t>(model->link("nic_in:2"));
  go_to(microseconds(30));
  EXPECT_NEAR(model->dynamics()->queue_bytes(port, microseconds(30)), 30e-6 * k200G, 1e4);
  EXPECT_NEAR(rate(first), 0.5, 1e-6);
  go_to(microseconds(290));
  EXPECT_LT(rate(first) + rate(second), 0.9);
  const auto ended = drain();
  EXPECT_GT(ended.back().at, microseconds(4004 * 1.02));
  EXPECT_LT(ended.back().at, microseconds(4004 * 1.5));
}

// A flow's limit is its state machine's, which is no link: `net bench` had none to name.
TEST_F(FlowDynamics, NamesWhereAFlowWaitsAndTheCardOfOneThatDoesNot) {
  build(4, 4, "dcqcn");
  const FlowId first = start(0, 2, 50e6), alone = start(1, 3, 50e6);
  start(3, 2, 50e6);
  go_to(microseconds(30));
  EXPECT_EQ(model->fabric().name(model->bottleneck(first)), "cable to card 0 of node 2");
  EXPECT_EQ(model->fabric().name(model->bottleneck(alone)), "cable from card 0 of node 1");
}

// The same victim as of the packet model's test: a quarter of the port for each that is paused, and
// for the flow that waits behind.
TEST_F(FlowDynamics, PausesAloneMakeAVictimOfTheFlowBehind) {
  cluster.fabric.switch_buffer = Bytes{8'000'000};
  build(12, 6, "none");
  std::vector<FlowId> flows{start(0, 6, 1e9), start(1, 10, 1e9)};
  for (int i = 7; i < 10; ++i) flows.push_back(start(i, 6, 1e9));
  EXPECT_GT(rate(flows[1]), 0.45);  // nobody is paused yet
  go_to(microseconds(5e3));
  EXPECT_TRUE(model->dynamics()->paused(static_cast<std::int32_t>(model->link("nic_in:6"))));
  for (const FlowId flow : flows) EXPECT_NEAR(rate(flow), 0.25, 0.01) << index(flow);
}

// A delay target keeps the queue near 20 us of the port's rate and the port busy.
TEST_F(FlowDynamics, SwiftHoldsTheQueueNearItsTarget) {
  build(5, 5, "swift");
  std::vector<FlowId> flows;
  for (int i = 1; i < 5; ++i) flows.push_back(start(i, 0, 1e9));
  const auto port = static_cast<std::int32_t>(model->link("nic_in:0"));
  double queue = 0, sum = 0;
  for (int i = 1; i <= 100; ++i) {
    const Time at = microseconds(10e3 + 50 * i);
    go_to(at);
    queue += model->dynamics()->queue_bytes(port, at) / 100;
    for (const FlowId flow : flows) sum += rate(flow) / 100;
  }
  EXPECT_GT(sum, 0.9);
  EXPECT_LT(queue, 2 * 20e-6 * k200G);
}

}  // namespace
}  // namespace trainyard
