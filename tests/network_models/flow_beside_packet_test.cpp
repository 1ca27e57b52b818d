#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include "core/random.h"
#include "network_models/flow/flow_model.h"
#include "network_models/packet/packet_model.h"

namespace trainyard {
namespace {

struct RandomFlow {
  Flow flow;
  Time at;
};

// Random congestion: 8 to 64 hosts of 100, 200 or 400 Gb/s below switches with few uplinks, 4 to 24
// flows that start within 300 us, many of them to the same hosts.
struct RandomScenario {
  Cluster cluster;
  std::vector<RandomFlow> flows;

  explicit RandomScenario(std::uint64_t seed) {
    const PhiloxKey key = random_key(seed, "congestion scenario");
    std::uint64_t draws = 0;
    const auto draw = [&](double below) { return below * to_uniform(philox(key, draws++)[0]); };
    const auto whole = [&](int below) { return static_cast<std::int32_t>(draw(below)); };
    const double scale = std::array{0.5, 1.0, 2.0}[static_cast<std::size_t>(whole(3))];
    cluster.nodes = 8 + whole(57);
    cluster.node.gpus = cluster.node.nics = 1;
    cluster.node.nic = {scale * 25e9};
    cluster.node.nic_efficiency = 1;
    cluster.fabric.rails = 1;
    cluster.fabric.nodes_per_tor = 4 + whole(13);
    cluster.fabric.tors_per_pod = 16;
    cluster.fabric.tor_uplinks = 1 + whole(4);
    cluster.fabric.uplink = {scale * (draw(1) < 0.5 ? 25e9 : 50e9)};
    cluster.fabric.hop_latency_us = 1;
    cluster.fabric.base_latency_us = 4;
    const int count = 4 + whole(21), targets = 1 + whole(cluster.nodes);
    for (int i = 0; i < count; ++i) {
      const std::int32_t target = whole(targets);
      std::int32_t source = whole(cluster.nodes);
      if (source == target) source = (source + 1) % cluster.nodes;
      const double bytes = scale * (1e6 + draw(15e6));
      flows.push_back({{RankId{source}, RankId{target}, Bytes{std::llround(bytes)},
                        static_cast<std::uint32_t>(i)},
                       microseconds(draw(300))});
    }
    std::ranges::sort(flows, {}, &RandomFlow::at);
  }

  // Microseconds that each flow takes.
  std::vector<double> times(NetworkModel& model) const {
    std::map<FlowId, std::size_t> started;
    std::vector<FlowEnd> ended;
    for (const RandomFlow& each : flows) {
      while (model.advance(each.at, ended) < each.at) {
      }
      const std::size_t number = started.size();
      started[model.start(each.flow, each.at)] = number;
    }
    while (model.advance(kNever, ended) < kNever) {
    }
    EXPECT_EQ(ended.size(), flows.size());
    std::vector<double> out(flows.size());
    for (const FlowEnd& end : ended) {
      const std::size_t number = started.at(end.flow);
      out[number] = to_microseconds(end.at - flows[number].at);
    }
    return out;
  }
};

// The yardstick: completion times under DCQCN as ConnectX cards are set, of flows and of packets
// over the same paths. Two runs of the packet model that differ in nothing but the draws of marks
// are 6 % apart, flow by flow.
TEST(SlowFlowBesidePacket, CompletionTimesAgreeWithinATenthOnAverage) {
  double error = 0, of_flows = 0, count = 0;
  constexpr int kScenarios = 20;
  for (int seed = 1; seed <= kScenarios; ++seed) {
    const RandomScenario scenario(seed);
    PacketModel packets(scenario.cluster, Network{"packet", 1, "dcqcn"}, Placement{1, {}}, 1);
    FlowModel flows(scenario.cluster, Network{"flow", 1, "dcqcn"}, Placement{1, {}}, 1);
    const std::vector<double> ours = scenario.times(flows), theirs = scenario.times(packets);
    double our_sum = 0, their_sum = 0;
    for (std::size_t i = 0; i < ours.size(); ++i) {
      our_sum += ours[i];
      their_sum += theirs[i];
      of_flows += std::abs(ours[i] / theirs[i] - 1);
    }
    count += static_cast<double>(ours.size());
    error += std::abs(our_sum / their_sum - 1) / kScenarios;
  }
  RecordProperty("mean_error", std::to_string(error));
  RecordProperty("mean_error_of_flows", std::to_string(of_flows / count));
  EXPECT_LT(error, 0.10);
  EXPECT_LT(of_flows / count, 0.10);
}

}  // namespace
}  // namespace trainyard
