#include "network_models/packet/packet_model.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "tests/network_models/one_card_nodes.h"

namespace trainyard {
namespace {

constexpr double k40G = 5e9;  // 40 Gb/s

class PacketNetwork : public OneCardNodes<PacketModel> {
 protected:
  PacketNetwork() : OneCardNodes(k40G, 3) {}
  void build(int nodes, int below) { OneCardNodes::build(nodes, below, network); }
  double received(FlowId flow) const {
    return model->hosts().received(model->queue_pairs(flow)[0]);
  }
  // Mean rates of the flows from `from` to `to`, as parts of a card's.
  std::vector<double> rates(const std::vector<FlowId>& flows, Time from, Time to) {
    go_to(from);
    std::vector<double> out;
    for (const FlowId flow : flows) out.push_back(-received(flow));
    go_to(to);
    for (std::size_t i = 0; i < flows.size(); ++i)
      out[i] = (out[i] + received(flows[i])) / to_seconds(to - from) / k40G;
    return out;
  }
  std::int32_t link(const char* name) const { return static_cast<std::int32_t>(model->link(name)); }

  Network network{"packet", 1, "dcqcn", "paper"};
};

// 10 packets of 1,000 bytes at 5 GB/s, 0.2 us each: the last is sent at 2 us, 0.2 us more at the
// one switch, 3 us of latency. Over three switches 0.2 us more at each and 2 us of latency more.
TEST_F(PacketNetwork, AloneAFlowTakesItsBytesAndItsPath) {
  build(4, 2);
  start(0, 1, 10e3);
  EXPECT_EQ(drain().front().at.value, 5'200);
  build(4, 2);
  start(0, 2, 10e3);
  EXPECT_EQ(drain().front().at.value, 2'000 + 3 * 200 + 5'000);
}

// The authors' simulation (ECN or Delay, figures of ns-3): two flows have 20 Gb/s each; a third
// joins and all have 13 Gb/s; when it leaves, the others take its part.
TEST_F(PacketNetwork, AThirdDcqcnFlowGetsItsThird) {
  build(4, 4);
  std::vector<FlowId> flows{start(1, 0, 1e9), start(2, 0, 1e9)};
  for (const double rate : rates(flows, microseconds(30e3), microseconds(50e3)))
    EXPECT_NEAR(rate, 1 / 2., 0.15 / 2);
  flows.push_back(start(3, 0, 1e9, microseconds(50e3)));
  for (const double rate : rates(flows, microseconds(100e3), microseconds(140e3)))
    EXPECT_NEAR(rate, 1 / 3., 0.15 / 3);
  model->cancel(flows.back(), microseconds(140e3));
  flows.pop_back();
  for (const double rate : rates(flows, microseconds(170e3), microseconds(190e3)))
    EXPECT_NEAR(rate, 1 / 2., 0.15 / 2);
}

// Node 0 and node 1 below one switch, and one uplink to the other's: node 0 sends to node 2, where
// three neighbours send too; node 1 to node 6, which hears nobody else. Pauses share node 2's port
// out over the ports that its packets come by, a quarter each; the uplink is a queue in order, so
// the victim is no faster than the flow it waits behind: 10 Gb/s of the 30 that are free.
TEST_F(PacketNetwork, PausesAloneMakeAVictimOfTheFlowBehind) {
  network.congestion_control = "none";
  cluster.fabric.switch_buffer = Bytes{2'000'000};
  build(12, 6);
  std::vector<FlowId> flows{start(0, 6, 1e9), start(1, 10, 1e9)};
  for (int i = 7; i < 10; ++i) flows.push_back(start(i, 6, 1e9));
  const auto paused = rates(flows, microseconds(2e3), microseconds(6e3));
  for (const double rate : paused) EXPECT_NEAR(rate, 0.25, 0.02);
  EXPECT_GT(model->ports().counters(link("tor_up:0:0")).pauses, 10);
  EXPECT_EQ(model->ports().drops(), 0);
}

// The same with DCQCN: once rates have settled nobody pauses anybody and the victim is free.
TEST_F(PacketNetwork, CongestionControlFreesTheVictim) {
  cluster.fabric.switch_buffer = Bytes{2'000'000};
  build(12, 6);
  std::vector<FlowId> flows{start(0, 6, 1e9), start(1, 10, 1e9)};
  for (int i = 7; i < 10; ++i) flows.push_back(start(i, 6, 1e9));
  const auto settled = rates(flows, microseconds(40e3), microseconds(60e3));
  EXPECT_GT(settled[1], 0.6);
  EXPECT_GT(settled[0] + settled[2] + settled[3] + settled[4], 0.95);
}

// DCQCN beside PFC in the authors' ns-3 (artefact sc20anonymous/DCQCN-validation): two flows share
// an uplink, one goes to a port that 15 hosts of the other switch send 4-KB messages to for 1 ms.
// The other flow, which has nothing to do with it, is cut to 9 Gb/s at first by pauses, and the
// uplink is not full again for 16 ms. The artefact does not tell its buffers: 2 MB, which pause, do
// it here; of 32 MB the uplink's part is never full, and the flow goes on.
TEST_F(PacketNetwork, ABurstElsewhereCutsAnInnocentFlowWherePausesReachIt) {
  const auto after_burst = [this](std::int64_t buffer) {
    cluster.fabric.switch_buffer = Bytes{buffer};
    build(34, 17);
    const std::vector<FlowId> flows{start(0, 33, 1e9), start(1, 17, 1e9)};
    for (int message = 0; message < 1220; ++message)  // 4,096 bytes at 40 Gb/s, for 1 ms
      for (int host = 18; host < 33; ++host)
        start(host, 17, 4096, microseconds(3000 + 0.8192 * message));
    const std::vector<double> cut = rates(flows, microseconds(4e3), microseconds(5e3));
    const std::vector<double> later = rates(flows, microseconds(18e3), microseconds(19e3));
    return std::pair(cut[0], later[0] + later[1]);
  };
  const auto [cut, later] = after_burst(2'000'000);
  EXPECT_LT(cut, 9. / 40);
  EXPECT_LT(later, 0.9);
  EXPECT_GT(after_burst(32'000'000).first, 0.4);
}

// "Flows stuck at 0.04 Gb/s": ten into one card get a tenth each of it, and the queue stays within
// a few targets of 20 us (100 KB at 40 Gb/s): windows of some packets may have up to 120 us.
TEST_F(PacketNetwork, SwiftStarvesNobodyInAnIncast) {
  network.congestion_control = "swift";
  build(11, 11);
  std::vector<FlowId> flows;
  for (int i = 1; i <= 10; ++i) flows.push_back(start(i, 0, 1e9));
  double sum = 0;
  for (const double rate : rates(flows, microseconds(20e3), microseconds(40e3))) {
    EXPECT_NEAR(rate, 0.1, 0.025);
    sum += rate;
  }
  EXPECT_GT(sum, 0.95);
  EXPECT_LT(model->ports().queue_bytes(link("nic_in:0")), 120e-6 * k40G);
}

// 20 us and for small windows more: 5 x 20 at a tenth of a packet, nothing from 100 packets on, in
// between a / sqrt(window) + b through both (Swift, section 3.5): 32.7 - 3.3 for one packet.
TEST(SwiftTarget, IsHigherForSmallWindows) {
  const SwiftParameters swift;
  EXPECT_DOUBLE_EQ(swift.target_of(0.05), 120);
  EXPECT_DOUBLE_EQ(swift.target_of(0.1), 120);
  EXPECT_NEAR(swift.target_of(1), 20 + 100 * (1 - 0.1) / (std::sqrt(10) - 0.1), 1e-9);
  EXPECT_NEAR(swift.target_of(100), 20, 1e-9);
  EXPECT_DOUBLE_EQ(swift.target_of(1000), 20);
}

// Without pauses a full buffer drops; what is lost is sent again, until all has arrived.
TEST_F(PacketNetwork, WithoutPausesWhatIsDroppedIsSentAgain) {
  cluster.fabric.pfc = false;
  cluster.fabric.switch_buffer = Bytes{200'000};
  network.congestion_control = "none";
  build(4, 4);
  for (int i = 1; i < 4; ++i) start(i, 0, 2e6);
  const auto ended = drain();
  EXPECT_EQ(ended.size(), 3U);
  EXPECT_GT(model->ports().drops(), 0);
  EXPECT_GE(model->hosts().sent_again(), model->ports().drops());
  EXPECT_GE(ended.back().at, seconds(3 * 2e6 / k40G));
}

// What was on a cable that goes down is lost. Nobody says so: the card sends again after its
// time-out, 4.096 us * 2^20.
TEST_F(PacketNetwork, WhatADeadCableLosesIsSentAgainAfterTheTimeOut) {
  build(4, 2);
  start(0, 2, 1e6);  // 200 us
  go_to(microseconds(100));
  model->set_capacity(model->link("tor_up:0:0"), 0, microseconds(100));
  go_to(microseconds(150));
  model->set_capacity(model->link("tor_up:0:0"), 1, microseconds(150));
  const auto ended = drain();
  ASSERT_EQ(ended.size(), 1U);
  EXPECT_GT(ended[0].at, microseconds(100));
  EXPECT_LT(ended[0].at, seconds(4.4));
  EXPECT_GT(model->hosts().sent_again(), 100);
}

// It used to fall silent. What a dead cable loses is tried again every 4.096 us * 2^14 = 67.1 ms,
// twice; the error comes after a third time of silence, 201.3 ms after the last answer, and names
// both ends and what is between them. The flow that does not cross the cable has long ended.
TEST_F(PacketNetwork, FailsAsNcclDoesAfterTheLastRetry) {
  network.ib_timeout = 14;
  network.ib_retry_count = 2;
  build(4, 2);
  start(0, 2, 1e6);  // 200 us
  start(1, 0, 1e6);
  go_to(microseconds(100));
  model->set_capacity(model->link("tor_up:0:0"), 0, microseconds(100));
  const auto ended = drain();
  ASSERT_EQ(ended.size(), 1U);
  EXPECT_EQ(ended[0].flow, FlowId{1});
  const auto failure = model->failure();
  ASSERT_TRUE(failure);
  EXPECT_NEAR(to_seconds(failure->at), 3 * 67'108'864e-9 + 100e-6, 20e-6);
  EXPECT_EQ(
      failure->message,
      "NCCL error at 0.201 s: nothing arrives from GPU 0 of node 0 to GPU 0 of node 2 (ranks 0 "
      "and 2): uplink 0 of ToR switch 0 is down; the sender gave up after 2 retries, 0.067 s "
      "apart "
      "(network.ib_timeout, network.ib_retry_count)");
}

// Where switches know that no way is left, the senders find out all the same.
TEST_F(PacketNetwork, FailsWhereNoOtherPathIsLeft) {
  network.ib_timeout = 10;
  build(4, 2);
  start(0, 2, 1e6);
  go_to(microseconds(100));
  const LinkId cut = model->link("tor_up:0:0");
  model->set_capacity(cut, 0, microseconds(100));
  model->route_around(cut, true, microseconds(120));
  EXPECT_TRUE(drain().empty());
  ASSERT_TRUE(model->failure());
  EXPECT_NE(model->failure()->message.find("node 0 to GPU 0 of node 2"), std::string::npos);
}

// 8 packets of 1,000 bytes at 5 GB/s, 0.2 us each, then nothing until answers to them are back: the
// first after the 4th packet, 0.8 us, 0.2 us at the switch and 3 us of path after the window's
// start and 3 us of way back: 7.0 us. 7 us a half window, where the line alone would take 0.8 us.
TEST_F(PacketNetwork, ASenderWaitsWhereItsWindowIsFull) {
  network.send_window = Bytes{8000};
  build(2, 2);
  start(0, 1, 80e3);
  const double all_us = to_microseconds(drain().front().at);
  EXPECT_GT(all_us, 10 * 7.0 - 7);
  EXPECT_LT(all_us, 10 * 7.0 + 7);
}

TEST_F(PacketNetwork, TheSameSeedGivesTheSameEnds) {
  std::vector<std::int64_t> first;
  for (int run = 0; run < 2; ++run) {
    build(8, 4);
    for (int i = 0; i < 8; ++i) start(i, (i * 3 + 5) % 8, 1e6 + 1e4 * i);
    std::vector<std::int64_t> ends;
    for (const FlowEnd& end : drain()) ends.push_back(end.at.value);
    if (run == 0) first = ends;
    EXPECT_EQ(ends, first);
    EXPECT_EQ(ends.size(), 8U);
  }
}

TEST_F(PacketNetwork, IsForSmallClustersWithAProtocol) {
  const auto refusal = [&](int nodes) {
    try {
      build(nodes, 32);
    } catch (const ConfigError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_NE(refusal(513).find("at most 512"), std::string::npos);
  network.congestion_control = "ideal";
  EXPECT_NE(refusal(4).find("need a protocol"), std::string::npos);
  network.congestion_control = "magic";
  EXPECT_NE(refusal(4).find("valid: ideal, none, dcqcn"), std::string::npos);
  network.congestion_control = "dcqcn";
  network.adaptive_retransmission = true;
  EXPECT_NE(refusal(4).find("one timer; legal: false"), std::string::npos);
  network.adaptive_retransmission = false;
  cluster.fabric.switch_buffer = Bytes{1000};
  EXPECT_NE(refusal(4).find("headroom"), std::string::npos);
}

TEST(PacketEvents, ComeInOrderOfTimeAndThenOfArrival) {
  EventQueue queue;
  std::int64_t now = 0, popped = 0, last_order = -1;
  std::uint64_t random = 1;
  for (int i = 0; i < 200'000; ++i) {
    random = random * 6364136223846793005ULL + 1442695040888963407ULL;
    const std::int64_t ahead = (random >> 40) << (random >> 33 & 7);  // some far beyond the wheel
    if (queue.empty() || (random >> 20 & 1) != 0) {
      queue.push({now + ahead / 1000 * 1000});
      continue;
    }
    const PacketEvent event = queue.front();
    queue.pop();
    ASSERT_GE(event.at, now);
    if (event.at == now && popped > 0) {
      ASSERT_GT(event.order, last_order);
    }
    now = event.at;
    last_order = event.order;
    ++popped;
  }
  EXPECT_GT(popped, 90'000);
}

}  // namespace
}  // namespace trainyard
