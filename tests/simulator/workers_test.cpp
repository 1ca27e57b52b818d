#include "simulator/workers.h"

#include <gtest/gtest.h>

namespace trainyard {
namespace {

TEST(ThreadWorkers, EveryIterationRunsOnceInEachOfManyLoops) {
  Workers workers(4);
  for (std::size_t n = 0; n < 200; ++n) {
    std::vector<std::atomic<int>> taken(n);
    workers.each(n, [&](std::size_t i) { ++taken[i]; });
    for (const auto& count : taken) EXPECT_EQ(count, 1);
  }
}

}  // namespace
}  // namespace trainyard
