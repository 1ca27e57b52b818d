#include "core/random.h"

#include <gtest/gtest.h>

#include <cmath>

namespace trainyard {
namespace {

// Known answers of Random123's kat_vectors (philox4x32, 10 rounds).
TEST(Random, PhiloxGivesThePublishedWords) {
  EXPECT_EQ(philox({0, 0}, PhiloxBlock{0, 0, 0, 0}),
            (PhiloxBlock{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  constexpr std::uint32_t kOnes = 0xffffffff;
  EXPECT_EQ(philox({kOnes, kOnes}, PhiloxBlock{kOnes, kOnes, kOnes, kOnes}),
            (PhiloxBlock{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(
      philox({0xa4093822, 0x299f31d0}, PhiloxBlock{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}),
      (PhiloxBlock{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Random, IndexAndSubIndexFillTheCounterFromItsLowEnd) {
  const PhiloxKey key{7, 9};
  EXPECT_EQ(philox(key, 0x100000002ULL, 0x300000004ULL), philox(key, PhiloxBlock{2, 1, 4, 3}));
}

TEST(Random, KeysTellSeedsAndNamesApart) {
  EXPECT_NE(random_key(1, "layer0.q"), random_key(2, "layer0.q"));
  EXPECT_NE(random_key(1, "layer0.q"), random_key(1, "layer0.k"));
  EXPECT_NE(random_key(1, ""), random_key(2, ""));
  EXPECT_EQ(random_key(1, "layer0.q"), random_key(1, "layer0.q"));
}

TEST(Random, UniformNumbersStayBelowOne) {
  EXPECT_EQ(to_uniform(0), 0.0);
  EXPECT_EQ(to_uniform(0x80000000), 0.5);
  EXPECT_LT(to_uniform(0xffffffff), 1.0);
}

// Bounds are five standard errors: 1/sqrt(n) of the mean, sqrt(2/n) of the variance, sqrt(96/n) of
// the fourth moment (variance of x^4 is 105 - 9), and of the fraction beyond two sigma (0.0455).
TEST(Random, NormalNumbersHaveTheMomentsOfTheNormalDistribution) {
  constexpr int kDraws = 200000;
  const PhiloxKey key = random_key(3, "moments");
  double sum = 0, squares = 0, fourth = 0, beyond = 0, neighbours = 0, previous = 0;
  for (int i = 0; i < kDraws; ++i) {
    const double x = random_normal(key, i);
    sum += x, squares += x * x, fourth += x * x * x * x;
    beyond += std::abs(x) > 2 ? 1 : 0;
    neighbours += x * previous;
    previous = x;
  }
  EXPECT_NEAR(sum / kDraws, 0, 5 / std::sqrt(kDraws));
  EXPECT_NEAR(squares / kDraws, 1, 5 * std::sqrt(2.0 / kDraws));
  EXPECT_NEAR(fourth / kDraws, 3, 5 * std::sqrt(96.0 / kDraws));
  EXPECT_NEAR(beyond / kDraws, 0.0455, 5 * std::sqrt(0.0455 * 0.9545 / kDraws));
  EXPECT_NEAR(neighbours / kDraws, 0, 5 / std::sqrt(kDraws));
}

}  // namespace
}  // namespace trainyard
