#include "network_models/flow/transport.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "core/error.h"
#include "network_models/fabric/fabric.h"

namespace trainyard {
namespace {

Network network_of(std::int32_t timeout, bool adaptive = false) {
  Network network;
  network.ib_timeout = timeout;
  network.adaptive_retransmission = adaptive;
  return network;
}

// 4.096 us * 2^n: 67 ms, 1.07 s and 4.29 s for NCCL's defaults of three ages.
TEST(Transport, TimerIsFourMicrosecondsDoubledTimeoutTimes) {
  EXPECT_EQ(Transport(network_of(14), 1).timer(), nanoseconds(67'108'864));
  EXPECT_EQ(Transport(network_of(18), 1).timer(), nanoseconds(1'073'741'824));
  EXPECT_EQ(Transport(network_of(20), 1).timer(), nanoseconds(4'294'967'296));
}

// Seven retries outlast 0.47 s, 7.5 s and 30 s.
TEST(Transport, OutlastsAnOutageOfSevenTimers) {
  for (const auto& [timeout, most] : {std::pair(14, 0.47), {18, 7.5}, {20, 30.0}}) {
    const Transport transport(network_of(timeout), 1);
    EXPECT_LT(transport.retry_after(seconds(most * 0.99)), kNever) << timeout;
    EXPECT_EQ(transport.retry_after(seconds(most * 1.01)), kNever) << timeout;
    EXPECT_EQ(transport.gives_up(), transport.timer() * 8);
  }
}

TEST(Transport, RetriesAtTheNextTimer) {
  const Transport transport(network_of(14), 1);
  EXPECT_EQ(transport.retry_after(nanoseconds(1)), transport.timer());
  EXPECT_EQ(transport.retry_after(transport.timer()), transport.timer());
  EXPECT_EQ(transport.retry_after(seconds(0.1)), transport.timer() * 2);
}

// 4, 12, 28, 60 us and so on: at most twice as late as the path works again.
TEST(Transport, AdaptiveTimersStartSmallAndDouble) {
  const Transport transport(network_of(18, true), 1);
  EXPECT_EQ(transport.retry_after(nanoseconds(1)), microseconds(4));
  EXPECT_EQ(transport.retry_after(microseconds(5)), microseconds(12));
  EXPECT_EQ(transport.retry_after(microseconds(13)), microseconds(28));
  for (double span = 1e-5; span < 0.5; span *= 1.7)
    EXPECT_LE(transport.retry_after(seconds(span)), seconds(2 * span + 4e-6)) << span;
  EXPECT_EQ(transport.gives_up(), transport.timer() * 8);
}

// 4 MiB at 25 GB/s.
TEST(Transport, WindowLastsAsLongAsItTakesToSend) {
  EXPECT_NEAR(to_seconds(Transport(network_of(20), 1).window(25e9)), 167.77e-6, 1e-8);
}

// 25 GB/s over 10 us are 61.035 packets of 4,096 bytes: with one lost in a thousand
// 0.999 / (0.999 + 0.001 * 62.035).
TEST(Transport, GoBackNResendsARoundTrip) {
  const Transport transport(network_of(20), 1);
  EXPECT_DOUBLE_EQ(transport.goodput(0, 25e9, microseconds(10)), 1);
  EXPECT_NEAR(transport.goodput(1e-3, 25e9, microseconds(10)), 0.999 / (0.999 + 0.062035), 1e-6);
}

TEST(Transport, GivesUpWhenTheLastPacketIsNeverHeardOf) {
  EXPECT_EQ(Transport(network_of(20), 1).wait_for_last(0, 5), Time{});
  EXPECT_EQ(Transport(network_of(20), 1).wait_for_last(1, 5), kNever);
}

// MegaScale: 64 nodes, 8 rails, 32 ToRs a pod, 32 uplinks, 6 pods; two directions a cable.
class Parts : public testing::Test {
 protected:
  static Cluster megascale() {
    Cluster cluster;
    cluster.nodes = 1536;
    cluster.node.gpus = cluster.node.nics = 8;
    cluster.fabric.tors_per_pod = cluster.fabric.tor_uplinks = 32;
    cluster.node.nic = gigabytes_per_second(25);
    cluster.fabric.uplink = gigabytes_per_second(50);
    return cluster;
  }
  Fabric fabric{megascale()};
  bool has(const std::vector<LinkId>& links, const LinkPlace& place) {
    return std::ranges::count(links, fabric.link(place)) == 1;
  }
};

TEST_F(Parts, SwitchHasTheCablesOfItsPorts) {
  const auto tor = fabric.cables_of_switch("tor:11");  // rail 3 of the second set
  EXPECT_EQ(tor.size(), 2u * (64 + 32));
  EXPECT_TRUE(has(tor, {LinkKind::nic_in, 8 * 64 + 3}));
  EXPECT_TRUE(has(tor, {LinkKind::tor_up, 11, 31}));
  const auto aggregation = fabric.cables_of_switch("aggregation:33");  // plane 1 of the second pod
  EXPECT_EQ(aggregation.size(), 2u * (32 + 32));
  EXPECT_TRUE(has(aggregation, {LinkKind::tor_down, 32, 1}));
  EXPECT_TRUE(has(aggregation, {LinkKind::core_up, 33, 0}));
  const auto core = fabric.cables_of_switch("core:2:5");
  EXPECT_EQ(core.size(), 2u * 6);
  EXPECT_TRUE(has(core, {LinkKind::core_down, 5 * 32 + 2, 5}));
}

TEST_F(Parts, CableHasBothDirections) {
  EXPECT_EQ(fabric.cable(fabric.named("tor_down:3:5")), fabric.cable(fabric.named("tor_up:3:5")));
  EXPECT_EQ(fabric.cable_of_card(2, 7), fabric.cable(fabric.named("nic_in:23")));
}

TEST_F(Parts, UnknownSwitchesSayWhatThereIs) {
  for (const char* name : {"tor:192", "aggregation:192", "core:32:0", "core:0:32"}) try {
      fabric.cables_of_switch(name);
      ADD_FAILURE() << name;
    } catch (const ConfigError& error) {
      EXPECT_NE(std::string(error.what()).find("192 tor, 192 aggregation and 32 x 32 core"),
                std::string::npos)
          << error.what();
    }
  for (const char* name : {"tor", "tor:1:2", "core:1", "spine:1", "tor:-1", "tor:x"})
    EXPECT_THROW(fabric.cables_of_switch(name), ConfigError) << name;
}

}  // namespace
}  // namespace trainyard
