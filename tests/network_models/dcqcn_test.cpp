#include "network_models/congestion/dcqcn.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "core/error.h"

namespace trainyard {
namespace {

constexpr Bandwidth gigabits(double rate) { return {rate * 1e9 / 8}; }

// Fixed points of the published model, solved independently of this code (equation 11 and the ones
// before it in "ECN or Delay", CoNEXT 2016; 40 Gb/s, 1 KB packets, Kmin 5, Kmax 200 KB, 1 %).
TEST(DcqcnFixedPoints, AreThePublishedModels) {
  const struct {
    double gbps;
    int flows;
    double p, queue_kb, alpha;
  } rows[] = {{40, 2, 7.77e-4, 20.2, .101},  {40, 4, 1.89e-3, 41.8, .122},
              {40, 8, 4.55e-3, 93.8, .145},  {40, 10, 6.03e-3, 122.6, .153},
              {40, 16, 1.09e-2, 200, .171},  {40, 32, 2.56e-2, 200, .200},
              {40, 64, 5.91e-2, 200, .230},  {100, 2, 2.39e-4, 9.7, .079},
              {100, 8, 1.42e-3, 32.7, .115}, {100, 32, 8.23e-3, 165.4, .163}};
  for (const auto& row : rows) {
    const Bandwidth port = gigabits(row.gbps);
    const auto at = dcqcn_fixed_point(dcqcn_parameters("paper", port), port, row.flows);
    EXPECT_NEAR(at.mark_probability, row.p, 0.005 * row.p) << row.flows;
    EXPECT_NEAR(at.queue_bytes, row.queue_kb * 1e3, 0.005 * row.queue_kb * 1e3) << row.flows;
    EXPECT_NEAR(at.alpha, row.alpha, 0.01 * row.alpha) << row.flows;
  }
}

class Dcqcn : public testing::Test {
 protected:
  void start(double gbps, int flows, double delay_us) {
    port = gigabits(gbps);
    fluid = DcqcnFluid(dcqcn_parameters("paper", port), port, microseconds(delay_us));
    for (int i = 0; i < flows; ++i) fluid.add(port);
  }
  double sum(int flows) const {
    double all = 0;
    for (int i = 0; i < flows; ++i) all += fluid.rate(i).value;
    return all;
  }
  // Difference between the fastest and the slowest flow, in fair shares.
  double unfair(int flows) const {
    double least = port.value, most = 0;
    for (int i = 0; i < flows; ++i) {
      least = std::min(least, fluid.rate(i).value);
      most = std::max(most, fluid.rate(i).value);
    }
    return (most - least) * flows / port.value;
  }
  // Shortest and longest queue of the next `ms`.
  std::pair<double, double> queue_over(double ms) {
    std::pair<double, double> out{1e18, 0};
    for (double at = 0; at < ms; at += 0.01) {
      fluid.advance(microseconds(10));
      out = {std::min(out.first, fluid.queue_bytes()), std::max(out.second, fluid.queue_bytes())};
    }
    return out;
  }

  Bandwidth port = gigabits(40);
  DcqcnFluid fluid{dcqcn_parameters("paper", port), port, microseconds(4)};
};

// At a delay of 4 us queue, alpha and the sum of rates settle where the equations rest.
TEST_F(Dcqcn, SettlesAtTheFixedPoint) {
  const std::pair<double, int> cases[] = {{40, 2}, {40, 10}, {100, 8}, {100, 32}};
  for (const auto& [gbps, flows] : cases) {
    start(gbps, flows, 4);
    fluid.advance(microseconds(100e3));
    const auto rest = dcqcn_fixed_point(dcqcn_parameters("paper", port), port, flows);
    EXPECT_NEAR(fluid.queue_bytes(), rest.queue_bytes, 0.1 * rest.queue_bytes) << flows;
    EXPECT_NEAR(fluid.alpha(0), rest.alpha, 0.1 * rest.alpha) << flows;
    EXPECT_NEAR(sum(flows), port.value, 0.05 * port.value) << flows;
  }
}

// Time-domain figure of the paper: at 85 us ten flows oscillate, two do not.
TEST_F(Dcqcn, OscillatesAtLongDelaysWithTenFlowsAndNotWithTwo) {
  start(40, 2, 85);
  fluid.advance(microseconds(100e3));
  const auto two = queue_over(20);
  EXPECT_GT(two.first, 14e3);  // 14.8 to 21.7 KB
  EXPECT_LT(two.second, 23e3);
  start(40, 10, 85);
  fluid.advance(microseconds(100e3));
  const auto ten = queue_over(20);
  EXPECT_GT(ten.second - ten.first, 40e3);
}

// Authors' bounds (figures/convergence_default.txt of the paper's repository): after so long the
// rates differ by less than a tenth of their share, from one flow at line rate and the rest at
// nothing.
TEST_F(Dcqcn, BecomesFairWithinThePublishedBounds) {
  const std::pair<int, double> bounds_ms[] = {{2, 96.9}, {4, 63.6}, {10, 35.9}, {24, 21.2}};
  for (const auto& [flows, bound_ms] : bounds_ms) {
    start(40, 1, 4);
    for (int i = 1; i < flows; ++i) fluid.add({port.value / 1000});
    fluid.advance(microseconds(100));
    EXPECT_GT(unfair(flows), 0.5);
    fluid.advance(microseconds(bound_ms * 1e3));
    EXPECT_LT(unfair(flows), 0.1) << flows;
  }
}

// The authors' simulation: two flows share 40 Gb/s, a third joins and all have 13 Gb/s well within
// 100 ms; when one leaves the others take its part.
TEST_F(Dcqcn, MakesRoomForAThirdFlowAndTakesItBack) {
  start(40, 2, 4);
  fluid.advance(microseconds(100e3));
  EXPECT_NEAR(fluid.rate(0).value, port.value / 2, 0.02 * port.value);
  fluid.add(port);
  fluid.advance(microseconds(100e3));
  for (int i = 0; i < 3; ++i) EXPECT_NEAR(fluid.rate(i).value, port.value / 3, 0.02 * port.value);
  fluid.remove(0);
  fluid.advance(microseconds(100e3));
  EXPECT_EQ(fluid.rate(0).value, 0);
  EXPECT_NEAR(fluid.rate(1).value, port.value / 2, 0.02 * port.value);
}

TEST(DcqcnSets, AreFoundByNameAndScaleWithThePort) {
  EXPECT_DOUBLE_EQ(dcqcn_parameters("nvidia", gigabits(400)).k_max_bytes, 16 * 400e3);
  EXPECT_DOUBLE_EQ(dcqcn_parameters("paper", gigabits(400)).k_max_bytes, 200e3);
  try {
    dcqcn_parameters("magic", gigabits(40));
    FAIL();
  } catch (const ConfigError& error) {
    EXPECT_NE(std::string(error.what()).find("paper, nvidia"), std::string::npos);
  }
}

}  // namespace
}  // namespace trainyard
