#include <gtest/gtest.h>

#include "core/config/nearest.h"
#include "core/config/units.h"
#include "core/config/value.h"

namespace trainyard {
namespace {

TEST(Units, ReadSizesInPowersOf1000And1024) {
  EXPECT_EQ(parse_size("80GiB")->value, 85'899'345'920);
  EXPECT_EQ(parse_size("1.5 MB")->value, 1'500'000);
  EXPECT_EQ(parse_size("7B")->value, 7);
  for (const char* bad : {"", "80", "GiB", "-1GiB", "80Gib", "1e30TiB", "0x10B", "80 GiB "})
    EXPECT_FALSE(parse_size(bad)) << bad;
}

TEST(Units, ReadTimes) {
  EXPECT_EQ(parse_time("10s"), seconds(10));
  EXPECT_EQ(parse_time("3.5us"), nanoseconds(3500));
  EXPECT_EQ(parse_time("2h"), seconds(7200));
  EXPECT_EQ(parse_time("1min"), seconds(60));
  for (const char* bad : {"10", "s", "-1s", "10 seconds", "1e9d", "nans", "infs"})
    EXPECT_FALSE(parse_time(bad)) << bad;
}

TEST(EditDistance, CountsInsertionsDeletionsReplacementsAndSwaps) {
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3);  // the textbook example
  EXPECT_EQ(edit_distance("slwo", "slow"), 1);
  EXPECT_EQ(edit_distance("", "abc"), 3);
  EXPECT_EQ(edit_distance("same", "same"), 0);
}

TEST(Nearest, NamesNothingWhenNothingIsNear) {
  EXPECT_EQ(nearest("adamm", {"adam", "lamb"}), "adam");
  EXPECT_EQ(nearest("sgd-momentum", {"adam", "lamb"}), "");
}

TEST(Printable, EscapesControlCharactersAndCutsLongText) {
  EXPECT_EQ(printable("a\n\x01\xff"), "a\\x0a\\x01\\xff");
  EXPECT_EQ(printable(std::string(100, 'x'), 10), "xxxxxxxxxx…");
}

}  // namespace
}  // namespace trainyard
