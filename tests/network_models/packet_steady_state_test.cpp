// Where DCQCN's flows rest, packet by packet, beside the published analysis.
#include <gtest/gtest.h>

#include <vector>

#include "network_models/packet/packet_model.h"
#include "tests/network_models/one_card_nodes.h"

namespace trainyard {
namespace {

struct SteadyState {
  double queue_bytes = 0, alpha = 0, used = 0;  // used: of the port
};

// `flows` cards of `gbps` send to one. A mark's effect comes back to the queue after 4 us: twice
// the path, and two packets' own time.
class PacketIncast : public OneCardNodes<PacketModel> {
 protected:
  PacketIncast() : OneCardNodes(0, 0) {}

  SteadyState rest(double gbps, int flows, double from_ms, double span_ms) {
    const Bandwidth line{gbps * 1e9 / 8};
    cluster.node.nic = cluster.fabric.uplink = line;
    cluster.fabric.base_latency_us = 2 - 8 / gbps;
    build(flows + 1, flows + 1, {"packet", 1, "dcqcn", "paper"});
    std::vector<std::int32_t> pairs;
    for (int i = 1; i <= flows; ++i) pairs.push_back(model->queue_pairs(start(i, 0, 8e9))[0]);
    const auto port = static_cast<std::int32_t>(model->link("nic_in:0"));
    go_to(microseconds(from_ms * 1e3));
    const double before = model->ports().counters(port).carried;
    const int samples = static_cast<int>(span_ms * 1e3 / 10);
    SteadyState out;
    for (int i = 1; i <= samples; ++i) {
      const Time at = microseconds(from_ms * 1e3 + 10 * i);
      go_to(at);
      out.queue_bytes += model->ports().queue_bytes(port) / samples;
      for (const std::int32_t pair : pairs)
        out.alpha += model->hosts().control(pair).alpha(at) / samples / flows;
    }
    out.used = (model->ports().counters(port).carried - before) / (span_ms * 1e-3 * line.value);
    EXPECT_EQ(model->ports().drops(), 0);
    return out;
  }
};

// CoNEXT 2016, equation 11: ten flows into 40 Gb/s rest at a queue of 122.6 KB and alpha 0.153.
// The publication's claim for steady state: the port is used to 95 % and more.
TEST_F(PacketIncast, TenFlowsRestWhereTheFluidModelDoes) {
  const SteadyState at = rest(40, 10, 60, 30);
  EXPECT_NEAR(at.queue_bytes, 122.6e3, 0.15 * 122.6e3);
  EXPECT_NEAR(at.alpha, 0.153, 0.15 * 0.153);
  EXPECT_GT(at.used, 0.95);
}

struct FixedPointRow {
  int flows;
  double queue_kb, alpha;
};

class SlowPacketIncast : public PacketIncast {
 protected:
  void expect(double gbps, const std::vector<FixedPointRow>& rows) {
    for (const FixedPointRow& row : rows) {
      const SteadyState at = rest(gbps, row.flows, 60, 100);
      EXPECT_NEAR(at.queue_bytes, row.queue_kb * 1e3, 0.15 * row.queue_kb * 1e3) << row.flows;
      EXPECT_NEAR(at.alpha, row.alpha, 0.15 * row.alpha) << row.flows;
      EXPECT_GT(at.used, 0.95) << row.flows;
    }
  }
};

// The same equation for other numbers of flows; from 16 flows on at 40 Gb/s and 64 at 100 Gb/s it
// asks for more marks than the line has, and the queue stays at Kmax.
TEST_F(SlowPacketIncast, TwoToSixtyFourFlowsRestThereAt40Gbps) {
  expect(40, {{2, 20.2, .101},
              {4, 41.8, .122},
              {8, 93.8, .145},
              {16, 200, .171},
              {32, 200, .200},
              {64, 200, .230}});
}

TEST_F(SlowPacketIncast, TwoToSixtyFourFlowsRestThereAt100Gbps) {
  expect(100, {{2, 9.66, .079}, {8, 32.7, .115}, {32, 165.4, .163}, {64, 200, .190}});
}

}  // namespace
}  // namespace trainyard
