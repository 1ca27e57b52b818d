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
    fluid = DcqcnFluid(parameters, port, microseconds(delay_us), marks);
    for (int i = 0; i < flows; ++i) fluid.add(port);
    flows_started = flows;
  }
  void expect_rest(const DcqcnFixedPoint& rest, int flows) const {
    EXPECT_NEAR(fluid.queue_bytes(), rest.queue_bytes, 0.1 * rest.queue_bytes) << flows;
    EXPECT_NEAR(fluid.alpha(0), rest.alpha, 0.1 * rest.alpha) << flows;
    EXPECT_NEAR(sum(flows), port.value, 0.05 * port.value) << flows;
  }
  double sum(int flows) const {
    double all = 0;
    for (int i = 0; i < flows; ++i) all += fluid.rate(i).value;
    return all;
  }
  struct Rest {
    double queue_bytes = 0, alpha = 0, sum = 0;
  };
  // Means over `ms` after `from_ms`.
  Rest rest_over(double from_ms, double ms) {
    fluid.advance(microseconds(from_ms * 1e3));
    Rest out;
    const int samples = static_cast<int>(ms * 1e3 / 5);
    for (int i = 0; i < samples; ++i) {
      fluid.advance(microseconds(5));
      out.queue_bytes += fluid.queue_bytes() / samples;
      out.alpha += fluid.alpha(0) / samples;
      out.sum += fluid.rate(0).value * flows_started / samples;
    }
    return out;
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
  DcqcnParameters parameters = dcqcn_parameters("paper", port);
  DcqcnMarks marks = DcqcnMarks::published;
  int flows_started = 0;
  DcqcnFluid fluid{parameters, port, microseconds(4)};
};

// At a delay of 4 us queue, alpha and the sum of rates settle where the equations rest.
TEST_F(Dcqcn, SettlesAtTheFixedPoint) {
  const std::pair<double, int> cases[] = {{40, 2},   {40, 4},   {40, 8},  {40, 10},
                                          {40, 16},  {100, 2},  {100, 4}, {100, 8},
                                          {100, 10}, {100, 16}, {100, 32}};
  for (const auto& [gbps, flows] : cases) {
    start(gbps, flows, 4);
    fluid.advance(microseconds(100e3));
    expect_rest(dcqcn_fixed_point(parameters, port, flows), flows);
  }
}

// The analysis takes the marking line to go on beyond Kmax (stability.m of the paper's repository,
// theorem 1): 16 and more flows at 40 Gb/s, 64 at 100 Gb/s rest there.
TEST_F(Dcqcn, SettlesAtTheFixedPointOnALineThatGoesOnBeyondKmax) {
  const struct {
    double gbps;
    int flows;
    double p, alpha;
  } rows[] = {{40, 16, 1.09e-2, .171},
              {40, 32, 2.56e-2, .200},
              {40, 64, 5.91e-2, .230},
              {100, 64, 1.95e-2, .190}};
  for (const auto& row : rows) {
    parameters = dcqcn_parameters("paper", gigabits(row.gbps));
    parameters.p_max *= 20;
    parameters.k_max_bytes += 19 * (parameters.k_max_bytes - parameters.k_min_bytes);
    start(row.gbps, row.flows, 4);
    fluid.advance(microseconds(100e3));
    expect_rest({row.p, row.alpha, 5e3 + row.p / 0.01 * 195e3}, row.flows);
  }
}

// Where all is marked above Kmax, as in the paper's equation 1, they have no such point. The
// published equations then swing below Kmax, at a delay of 4 us by a quarter of it with 64 flows; a
// queue of packets rests there.
TEST_F(Dcqcn, RestsAtKmaxWherePacketsMeetTheMarks) {
  const struct {
    double gbps;
    int flows;
    double delay_us, alpha;
  } rows[] = {{40, 16, 4, .171}, {40, 32, 4, .200}, {40, 64, 4, .230}, {100, 64, 3, .190}};
  for (const auto& row : rows) {
    marks = DcqcnMarks::of_packets;
    start(row.gbps, row.flows, row.delay_us);
    const Rest rest = rest_over(60, 20);
    EXPECT_NEAR(rest.queue_bytes, 200e3, 0.1 * 200e3) << row.flows;
    EXPECT_NEAR(rest.alpha, row.alpha, 0.1 * row.alpha) << row.flows;
    EXPECT_NEAR(rest.sum, port.value, 0.05 * port.value) << row.flows;
  }
}

// Below Kmax they change nothing: the same rest.
TEST_F(Dcqcn, RestsAtTheFixedPointWherePacketsMeetTheMarks) {
  const std::pair<double, int> cases[] = {{40, 2}, {40, 10}, {100, 2}, {100, 32}};
  for (const auto& [gbps, flows] : cases) {
    marks = DcqcnMarks::of_packets;
    start(gbps, flows, 4);
    fluid.advance(microseconds(100e3));
    expect_rest(dcqcn_fixed_point(parameters, port, flows), flows);
  }
}

// A mark probability that is the mean over a spread queue: nothing and all far from Kmin and Kmax,
// half the jump at Kmax, and at Kmin the line's mean over the half above it, deviation / sqrt(2
// pi).
TEST(DcqcnMarking, IsTheMeanOverASpreadQueue) {
  const DcqcnParameters of = dcqcn_parameters("paper", gigabits(40));
  EXPECT_NEAR(of.mark_probability(0, 1e3), 0, 1e-9);
  EXPECT_NEAR(of.mark_probability(100e3, 1e3), 0.01 * 95 / 195, 1e-9);
  EXPECT_NEAR(of.mark_probability(200e3, 1e3), 0.505 - 0.01 * 0.39894 / 195, 1e-6);
  EXPECT_NEAR(of.mark_probability(5e3, 1e3), 0.01 * 0.39894 / 195, 1e-9);
  EXPECT_NEAR(of.mark_probability(300e3, 1e3), 1, 1e-9);
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

// The same where the paper's phase margins are far from zero (figures/pm_*.txt of its repository;
// the linear analysis takes p* from its approximation for small p, and the line beyond Kmax;
// margins of -7 to 0 degrees settle here).
TEST_F(Dcqcn, OscillatesWhereThePublishedPhaseMarginIsNegative) {
  const struct {
    double gbps, delay_us;
    int flows;
    double margin;
  } rows[] = {{40, 50, 2, 8.3},     {40, 50, 32, 9.2},    {40, 100, 64, 15.6},
              {40, 100, 2, -10.1},  {40, 100, 8, -18.3},  {100, 50, 2, -16.7},
              {100, 50, 32, -16.6}, {100, 100, 2, -57.3}, {100, 100, 8, -33.1}};
  parameters.p_max *= 20;
  parameters.k_max_bytes += 19 * (parameters.k_max_bytes - parameters.k_min_bytes);
  for (const auto& row : rows) {
    start(row.gbps, row.flows, row.delay_us);
    fluid.advance(microseconds(150e3));
    const auto [least, most] = queue_over(10);
    const double rest = dcqcn_fixed_point(parameters, port, row.flows).queue_bytes;
    EXPECT_EQ(most - least > 0.5 * rest, row.margin < 0) << row.flows << " at " << row.delay_us;
  }
}

// Authors' bounds (figures/convergence_*.txt of the paper's repository): after so long the rates
// differ by less than a tenth of their share, from one flow at line rate and the rest at nothing.
TEST_F(Dcqcn, BecomesFairWithinThePublishedBounds) {
  const struct {
    int flows;
    double additive_mbps, k_max_kb, gain, bound_ms;
  } rows[] = {{2, 40, 200, 1. / 256, 96.9},   {4, 40, 200, 1. / 256, 63.6},
              {6, 40, 200, 1. / 256, 49.4},   {8, 40, 200, 1. / 256, 41.2},
              {10, 40, 200, 1. / 256, 35.9},  {16, 40, 200, 1. / 256, 26.9},
              {20, 40, 200, 1. / 256, 23.6},  {24, 40, 200, 1. / 256, 21.2},
              {2, 10, 200, 1. / 256, 358.2},  {10, 10, 200, 1. / 256, 121.4},
              {2, 40, 1000, 1. / 256, 102.7}, {10, 40, 1000, 1. / 256, 40.1},
              {2, 40, 200, 1. / 16, 100.1}};
  for (const auto& row : rows) {
    parameters.additive_mbps = row.additive_mbps;
    parameters.k_max_bytes = row.k_max_kb * 1e3;
    parameters.gain = row.gain;
    start(40, 1, 4);
    for (int i = 1; i < row.flows; ++i) fluid.add({port.value / 1000});
    fluid.advance(microseconds(100));
    EXPECT_GT(unfair(row.flows), 0.5);
    fluid.advance(microseconds(row.bound_ms * 1e3));
    EXPECT_LT(unfair(row.flows), 0.1) << row.flows;
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

// Rates were no numbers after a flow had joined at a queue beyond Kmax.
TEST_F(Dcqcn, AFlowMayJoinWhereAllIsMarked) {
  start(40, 10, 4);
  fluid.advance(microseconds(100));
  ASSERT_GT(fluid.queue_bytes(), parameters.k_max_bytes);
  const std::int32_t joined = fluid.add(port);
  fluid.advance(microseconds(50e3));
  EXPECT_NEAR(fluid.rate(joined).value, port.value / 11, 0.1 * port.value / 11);
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
