#include "backends/common/processor_binding.h"

#include <gtest/gtest.h>

#include <thread>

namespace trainyard {
namespace {

Processors allowed_in_a_new_thread() {
  Processors found;
  std::thread([&] { found = allowed_processors(); }).join();
  return found;
}

TEST(ProcessorBinding, HoldsForThreadsStartedMeanwhileAndEndsWithItself) {
  const Processors all = allowed_processors();
  ASSERT_FALSE(all.empty());
  const Processors last{all.back()};
  {
    const ProcessorBinding binding(last);
    EXPECT_EQ(allowed_processors(), last);
    EXPECT_EQ(allowed_in_a_new_thread(), last);
  }
  EXPECT_EQ(allowed_processors(), all);
  EXPECT_EQ(allowed_in_a_new_thread(), all);
}

TEST(ProcessorBinding, ToNoneChangesNothing) {
  const Processors all = allowed_processors();
  const ProcessorBinding binding({});
  EXPECT_EQ(allowed_processors(), all);
}

// The processors that a container leaves are seldom the first ones.
TEST(ProcessorBinding, SharesOutThoseThatAreAllowed) {
  EXPECT_EQ(own_processors({2, 3, 6, 7}, 1, 2, 2), (Processors{6, 7}));
  EXPECT_EQ(own_processors({2, 3, 6, 7}, 1, 2, 3), (Processors{2, 3, 6, 7}));
  EXPECT_EQ(own_processors({5}, 3, 4, 1), (Processors{5}));
  EXPECT_EQ(own_processors({}, 0, 1, 1), Processors{});
}

}  // namespace
}  // namespace trainyard
