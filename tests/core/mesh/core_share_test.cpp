#include "core/mesh/core_share.h"

#include <gtest/gtest.h>

#include <vector>

namespace trainyard {
namespace {

std::vector<std::int32_t> firsts(std::int32_t ranks, std::int32_t cores, std::int32_t threads) {
  std::vector<std::int32_t> out;
  for (std::int32_t place = 0; place < ranks; ++place)
    out.push_back(core_share(place, ranks, cores, threads).first);
  return out;
}

TEST(CoreShare, GivesRanksEqualNeighbouringShares) {
  EXPECT_EQ(firsts(4, 16, 4), (std::vector<std::int32_t>{0, 4, 8, 12}));
  EXPECT_EQ(core_share(2, 4, 16, 4).count, 4);
}

TEST(CoreShare, LeavesWhatRemainsOver) {
  EXPECT_EQ(firsts(3, 16, 5), (std::vector<std::int32_t>{0, 5, 10}));
}

TEST(CoreShare, SpreadsMoreRanksThanCoresEvenly) {
  EXPECT_EQ(firsts(6, 3, 1), (std::vector<std::int32_t>{0, 1, 2, 0, 1, 2}));
  EXPECT_EQ(core_share(5, 6, 3, 1).count, 1);
}

TEST(CoreShare, IsAllCoresWhereRanksWouldShareThemUnevenly) {
  EXPECT_EQ(firsts(3, 2, 1), (std::vector<std::int32_t>{0, 0, 0}));
  EXPECT_EQ(core_share(2, 3, 2, 1).count, 2);
}

TEST(CoreShare, IsAllCoresWhereItWouldNotHoldTheThreads) {
  EXPECT_EQ(core_share(1, 2, 8, 5).first, 0);
  EXPECT_EQ(core_share(1, 2, 8, 5).count, 8);
}

}  // namespace
}  // namespace trainyard
