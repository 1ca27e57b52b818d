#include "simulator/spread.h"

#include <gtest/gtest.h>

namespace trainyard {
namespace {

// Expected largest of n standard normal draws (Harter 1961): 1.4236 of 8, 2.5076 of 100, 3.2414 of
// 1,000. Blom's approximation is within 1 %.
TEST(Spread, TheSlowestOfManyIsWhereOrderStatisticsPutIt) {
  EXPECT_NEAR(expected_slowest(1, 8) - 1, 1.4236, 0.01 * 1.4236);
  EXPECT_NEAR(expected_slowest(1, 100) - 1, 2.5076, 0.01 * 2.5076);
  EXPECT_NEAR(expected_slowest(1, 1000) - 1, 3.2414, 0.01 * 3.2414);
  EXPECT_NEAR(expected_slowest(0.02, 1000) - 1, 0.02 * 3.2414, 0.01 * 0.02 * 3.2414);
}

TEST(Spread, OneGpuOrEqualGpusAreNoSlower) {
  EXPECT_EQ(expected_slowest(0.05, 1), 1);
  EXPECT_EQ(expected_slowest(0, 12288), 1);
}

}  // namespace
}  // namespace trainyard
