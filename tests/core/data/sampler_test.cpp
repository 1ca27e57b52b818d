#include "core/data/sampler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/data/permutation.h"
#include "core/data/tokens.h"

namespace trainyard {
namespace {

std::vector<std::int64_t> sorted(std::vector<std::int64_t> values) {
  std::sort(values.begin(), values.end());
  return values;
}

std::vector<std::int64_t> range(std::int64_t size) {
  std::vector<std::int64_t> values(size);
  std::iota(values.begin(), values.end(), 0);
  return values;
}

TEST(Permutation, VisitsEveryIndexOnceAtAnySize) {
  for (const std::int64_t size : {1, 2, 3, 4, 5, 7, 16, 17, 255, 256, 257, 1000, 4097}) {
    const Permutation order(random_key(1, "order"), size);
    std::vector<std::int64_t> seen;
    for (std::int64_t i = 0; i < size; ++i) seen.push_back(order(i));
    EXPECT_EQ(sorted(seen), range(size)) << size;
  }
}

TEST(Permutation, KeysGiveOtherOrders) {
  const Permutation first(random_key(1, "order"), 1000), second(random_key(2, "order"), 1000);
  int equal = 0;
  for (std::int64_t i = 0; i < 1000; ++i) equal += first(i) == second(i) ? 1 : 0;
  EXPECT_LT(equal, 10);  // one is expected: Poisson with mean 1
}

TEST(Permutation, WorksAtSizesThatNoTableHolds) {
  const std::int64_t size = (std::int64_t{1} << 40) + 12345;
  const Permutation order(random_key(5, "order"), size);
  std::vector<std::int64_t> seen;
  for (std::int64_t i = 0; i < 1000; ++i) seen.push_back(order(i));
  for (const std::int64_t value : seen) {
    EXPECT_GE(value, 0);
    EXPECT_LT(value, size);
  }
  EXPECT_EQ(std::unique(seen.begin(), seen.end()), seen.end());
}

// Each of six elements is equally likely to come first: chi-square with 5 degrees of freedom, whose
// 0.999 quantile is 20.5.
TEST(Permutation, EveryElementMayComeFirst) {
  constexpr int kKeys = 6000;
  std::vector<int> counts(6, 0);
  for (int i = 0; i < kKeys; ++i) ++counts[Permutation(random_key(i, "first"), 6)(0)];
  double chi_square = 0;
  for (const int count : counts) chi_square += std::pow(count - kKeys / 6.0, 2) / (kKeys / 6.0);
  EXPECT_LT(chi_square, 20.5);
}

TEST(Sampler, EveryEpochHasEverySampleOnceInItsOwnOrder) {
  SamplerState state{.seed = 4, .samples = 37};
  const auto first = next_samples(state, 37);
  EXPECT_EQ(state, (SamplerState{4, 37, 1, 0}));
  const auto second = next_samples(state, 37);
  EXPECT_EQ(sorted(first), range(37));
  EXPECT_EQ(sorted(second), range(37));
  EXPECT_NE(first, second);
}

TEST(Sampler, BatchesMayCrossEpochs) {
  SamplerState whole{.seed = 4, .samples = 5}, parts = whole;
  const auto expected = next_samples(whole, 24);
  std::vector<std::int64_t> got;
  for (const int count : {3, 4, 1, 16}) {
    const auto some = next_samples(parts, count);
    got.insert(got.end(), some.begin(), some.end());
  }
  EXPECT_EQ(got, expected);
  EXPECT_EQ(parts, (SamplerState{4, 5, 4, 4}));
}

TEST(Sampler, SkippingIsTheSameAsReading) {
  SamplerState read{.seed = 9, .samples = 11}, skipped = read;
  next_samples(read, 40);
  skip_samples(skipped, 40);
  EXPECT_EQ(read, skipped);
  EXPECT_EQ(next_samples(read, 12), next_samples(skipped, 12));
}

// Stopped after two of four batches and continued with other data-parallel sizes, the samples are
// those of the uninterrupted run.
TEST(Sampler, DataRanksOfAnyNumberShareTheSameGlobalBatch) {
  SamplerState straight{.seed = 2, .samples = 100};
  const auto expected = next_samples(straight, 4 * 12);
  SamplerState state{.seed = 2, .samples = 100};
  std::vector<std::int64_t> got;
  for (const std::int64_t data_ranks : {1, 3, 2, 6}) {
    const auto batch = next_samples(state, 12);
    for (std::int64_t rank = 0; rank < data_ranks; ++rank) {
      const RowRange rows = rows_of(12, data_ranks, rank);
      for (std::int64_t i = 0; i < rows.count; ++i) got.push_back(batch[rows.first + i]);
    }
  }
  EXPECT_EQ(got, expected);
}

TEST(Tokens, ATokenThatIsNoTargetIsStillAnInput) {
  for (const std::int32_t token : {0, 1, 50256}) {
    EXPECT_TRUE(is_target(token));
    EXPECT_FALSE(is_target(not_a_target(token)));
    EXPECT_EQ(input_token(not_a_target(token)), token);
    EXPECT_EQ(input_token(token), token);
  }
  EXPECT_EQ(kPaddingToken, -1);
}

}  // namespace
}  // namespace trainyard
