#include "network_models/flow/flow_model.h"

#include <gtest/gtest.h>

#include <vector>

#include "core/error.h"
#include "core/random.h"
#include "network_models/closed_form.h"

namespace trainyard {
namespace {

// Draws by name and index.
class Draws {
 public:
  explicit Draws(std::uint64_t seed) : key_(random_key(seed, "flow tests")) {}
  int below(int n) { return static_cast<int>(philox(key_, next_++)[0] % static_cast<unsigned>(n)); }

 private:
  PhiloxKey key_;
  std::uint64_t next_ = 0;
};

// Nodes of one GPU below ToRs of 4, cards of 25 GB/s, two pods of two ToRs.
Cluster small_cluster() {
  Cluster cluster;
  cluster.nodes = 16;
  cluster.node.gpus = cluster.node.nics = 1;
  cluster.node.nic = gigabytes_per_second(25);
  cluster.node.pcie = gigabytes_per_second(50);
  cluster.fabric.rails = 1;
  cluster.fabric.nodes_per_tor = 4;
  cluster.fabric.tors_per_pod = 2;
  cluster.fabric.tor_uplinks = 1;
  cluster.fabric.uplink = gigabytes_per_second(50);
  cluster.fabric.base_latency_us = 3;
  cluster.fabric.hop_latency_us = 1;
  return cluster;
}

// Senders that always have something to send notice at once that a path works again.
Network patient(std::int32_t qps) {
  Network network{"flow", qps};
  network.send_window = Bytes{std::int64_t{1} << 40};
  return network;
}

class Flows : public testing::Test {
 protected:
  static constexpr std::int64_t kMillisecond = 25'000'000;  // bytes that a card sends in one
  FlowModel model{small_cluster(), patient(1), Placement{1, {}}, 1};

  FlowId start(int source, int target, std::int64_t bytes, Time now = {}) {
    return model.start({RankId{source}, RankId{target}, Bytes{bytes}}, now);
  }
  // (flow, microseconds) of the next ends.
  std::vector<std::pair<FlowId, double>> next(Time limit = kNever) {
    std::vector<FlowEnd> ended;
    model.advance(limit, ended);
    std::vector<std::pair<FlowId, double>> out;
    for (const FlowEnd& end : ended) out.emplace_back(end.flow, to_microseconds(end.at));
    return out;
  }
  using Ends = std::vector<std::pair<FlowId, double>>;
};

TEST_F(Flows, AloneTakeLatencyAndBandwidth) {
  const FlowId near = start(0, 1, kMillisecond), far = start(4, 8, kMillisecond);
  EXPECT_EQ(next(), (Ends{{near, 1003}}));
  EXPECT_EQ(next(), (Ends{{far, 1007}}));
  EXPECT_TRUE(next().empty());
}

// Three flows into one card: each gets a third; when the short one has ended, halves.
TEST_F(Flows, IntoOneCardShareIt) {
  const FlowId brief = start(0, 3, kMillisecond), a = start(1, 3, 2 * kMillisecond);
  const FlowId b = start(2, 3, 2 * kMillisecond);
  EXPECT_EQ(next(), (Ends{{brief, 3003}}));
  EXPECT_EQ(next(), (Ends{{a, 5003}, {b, 5003}}));
}

// Four cards below an uplink of twice a card's rate: half each. A flow that stays below the ToR
// switch has its card to itself.
TEST_F(Flows, ThroughANarrowUplinkGetTheirShare) {
  for (int node = 0; node < 4; ++node) start(node, 4 + node, kMillisecond);
  const FlowId near = start(8, 9, kMillisecond);
  EXPECT_EQ(next(), (Ends{{near, 1003}}));
  EXPECT_DOUBLE_EQ(next().front().second, 2005);
}

// At 1 ms of 2 the second flow leaves; the first has 1 ms of its bytes left, alone.
TEST_F(Flows, GoFasterWhenAnotherIsCancelled) {
  const FlowId stays = start(0, 3, 2 * kMillisecond), leaves = start(1, 3, 2 * kMillisecond);
  EXPECT_TRUE(next(microseconds(2000)).empty());
  model.cancel(leaves, microseconds(2000));
  EXPECT_EQ(next(), (Ends{{stays, 3003}}));
}

// Half speed from 1 ms on: the second millisecond of bytes takes two. A dead link: never.
TEST_F(Flows, SlowDownAndStopWithTheirLinks) {
  const LinkId cable = model.fabric().link({LinkKind::nic_in, 3});
  const FlowId flow = start(0, 3, 2 * kMillisecond);
  model.set_capacity(cable, 0.5, microseconds(1000));
  EXPECT_TRUE(next(microseconds(2000)).empty());
  model.set_capacity(cable, 0, microseconds(2000));
  EXPECT_TRUE(next(microseconds(9000)).empty());
  model.set_capacity(cable, 1, microseconds(9000));
  EXPECT_EQ(next(), (Ends{{flow, 9503}}));
}

// The link dies at 1 ms with half of the bytes sent; switches know at 3 ms, and the other uplink
// carries the rest. When it has died too, nobody can.
TEST_F(Flows, GoOnOverAnotherUplinkOnceSwitchesKnow) {
  Cluster cluster = small_cluster();
  cluster.fabric.tor_uplinks = 2;
  FlowModel two(cluster, patient(1), Placement{1, {}}, 1);
  const FlowId flow = two.start({RankId{0}, RankId{4}, Bytes{2 * kMillisecond}}, Time{});
  std::vector<FlowEnd> ended;
  two.advance(microseconds(1000), ended);
  const std::int32_t port = two.load(two.fabric().link({LinkKind::tor_up, 0, 0})).value > 0 ? 0 : 1;
  const LinkId used = two.fabric().link({LinkKind::tor_up, 0, port});
  two.set_capacity(used, 0, microseconds(1000));
  EXPECT_EQ(two.advance(microseconds(3000), ended), microseconds(3000));
  two.route_around(used, true, microseconds(3000));
  EXPECT_GT(two.load(two.fabric().link({LinkKind::tor_up, 0, 1 - port})).value, 0);
  EXPECT_EQ(two.advance(kNever, ended), microseconds(4005));
  ASSERT_EQ(ended.size(), 1u);
  EXPECT_EQ(ended.front().flow, flow);
  two.start({RankId{0}, RankId{4}, Bytes{kMillisecond}}, microseconds(5000));
  two.route_around(two.fabric().link({LinkKind::tor_up, 0, 1 - port}), true, microseconds(5000));
  two.advance(kNever, ended);
  ASSERT_TRUE(two.failure());  // 8 timers of 4.096 us * 2^20
  EXPECT_EQ(two.failure()->at, microseconds(5000) + nanoseconds(8 * 4'294'967'296));
  EXPECT_NE(two.failure()->message.find("no path is left from GPU 0 of node 0 to GPU 0 of node 4"),
            std::string::npos);
}

TEST_F(Flows, OfNoBytesTakeTheLatency) {
  const FlowId empty = start(0, 5, 0);
  EXPECT_EQ(next(), (Ends{{empty, 5}}));
}

// A ring through 8 nodes of two ToRs; a stranger takes half of one card: the whole ring is slowed,
// and leaves other cards half idle to a second stranger.
TEST_F(Flows, InStepMoveAtThePaceOfTheSlowest) {
  std::vector<Flow> ring;
  for (int node = 0; node < 8; ++node)
    ring.push_back({RankId{node}, RankId{(node + 1) % 8}, Bytes{kMillisecond}});
  const FlowId all = model.start_in_step(ring, {});
  const FlowId stranger = start(8, 1, kMillisecond);
  EXPECT_DOUBLE_EQ(model.rate(all).value, 12.5e9);
  EXPECT_EQ(model.fabric().name(model.bottleneck(all)), "cable to card 0 of node 1");
  EXPECT_DOUBLE_EQ(model.load(model.fabric().link({LinkKind::nic_in, 5})).value, 12.5e9);
  EXPECT_EQ(next(), (Ends{{all, 2005}}));
  EXPECT_EQ(next(), (Ends{{stranger, 2007}}));
}

// Random flows one after the other end at the same nanosecond in two models, with the seed only.
TEST_F(Flows, RepeatWithTheSeed) {
  const auto run = [](std::uint64_t seed) {
    Cluster cluster = small_cluster();
    cluster.fabric.tor_uplinks = 4;
    cluster.fabric.uplink = gigabytes_per_second(12.5);
    FlowModel model(cluster, Network{"flow", 2}, Placement{1, {}}, seed);
    Draws draws(5);
    std::vector<FlowEnd> ended;
    Time now;
    for (int i = 0; i < 300; ++i) {
      const RankId source{draws.below(16)}, target{draws.below(16)};
      model.start({source, target, Bytes{1 + draws.below(9'000'000)}}, now);
      const Time then = now + nanoseconds(draws.below(50'000));
      while (now < then) now = model.advance(then, ended);
    }
    while (model.advance(kNever, ended) < kNever) {
    }
    std::vector<std::int64_t> ends;
    for (const FlowEnd& end : ended) ends.push_back(end.at.value);
    return ends;
  };
  const auto once = run(1);
  EXPECT_EQ(once.size(), 300u);
  EXPECT_EQ(once, run(1));
  EXPECT_NE(once, run(2));
}

// Where no two flows meet, every message takes what the model without contention says.
TEST_F(Flows, AloneAgreeWithTheIdealModel) {
  const ClosedFormModel ideal(small_cluster(), Network{"ideal", 1}, Placement{1, {}}, false);
  Draws draws(9);
  Time now;
  for (int i = 0; i < 100; ++i) {
    const int source = draws.below(16), target = (source + 1 + draws.below(15)) % 16;
    const Flow flow{RankId{source}, RankId{target}, Bytes{1 + draws.below(100'000'000)}};
    std::vector<FlowEnd> ended;
    model.start(flow, now);
    const Time end = model.advance(kNever, ended);
    EXPECT_NEAR(static_cast<double>((end - now).value),
                static_cast<double>(ideal.closed_form(flow)->value), 1.0);
    now = end;
  }
}

}  // namespace
}  // namespace trainyard
