#include "backends/common/launch/output.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <unistd.h>

#include <array>

namespace trainyard {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(LineCutter, LinesComeInAnyPortions) {
  LineCutter cutter;
  EXPECT_THAT(cutter.feed("on"), IsEmpty());
  EXPECT_THAT(cutter.feed("e\n\ntwo\nth"), ElementsAre("one", "", "two"));
  EXPECT_THAT(cutter.rest(), ElementsAre("th"));
  EXPECT_THAT(cutter.rest(), IsEmpty());
}

TEST(LineCutter, LongLinesComeInPiecesOf64KiB) {
  LineCutter cutter;
  const std::string piece(64 << 10, 'x');
  EXPECT_THAT(cutter.feed(piece + "\n" + piece + "y\n"), ElementsAre(piece, piece, "y"));
  EXPECT_THAT(cutter.feed(piece), IsEmpty());
  EXPECT_THAT(cutter.feed("\n"), ElementsAre(piece));
}

TEST(OutputQueue, WritesWholeLinesThatSurelyFitAPipe) {
  std::array<int, 2> ends{};
  ASSERT_EQ(pipe(ends.data()), 0);
  OutputQueue queue(ends[1]);
  const std::string line(3000, 'x');
  queue.add(line + "\n" + line + "\n");
  std::string got(10'000, '\0');
  queue.write_some();  // 4096 bytes surely fit (pipe(7), PIPE_BUF): the first line, not the second
  got.resize(static_cast<std::size_t>(read(ends[0], got.data(), got.size())));
  EXPECT_EQ(got, line + "\n");
  queue.write_some();
  EXPECT_TRUE(queue.empty());
  close(ends[0]);
  close(ends[1]);
}

TEST(OutputQueue, IsFullAboveAMebibyteAndKeepsNothingOnceGivenUp) {
  OutputQueue queue(-1);
  queue.add(std::string(1 << 20, 'x'));
  EXPECT_FALSE(queue.full());
  queue.add("y");
  EXPECT_TRUE(queue.full());
  queue.write_some();  // no such descriptor
  queue.add("more");
  EXPECT_TRUE(queue.empty());
}

TEST(RepeatedLines, OnlyTheFirst64LinesOfOtherRanksAreRepetitions) {
  RepeatedLines lines;
  EXPECT_TRUE(lines.is_news(0, "bad"));
  EXPECT_TRUE(lines.is_news(0, "bad"));  // a rank may repeat itself
  EXPECT_FALSE(lines.is_news(1, "bad"));
  EXPECT_EQ(lines.repeated(), 1);
  for (int i = 1; i < 64; ++i) EXPECT_TRUE(lines.is_news(1, std::to_string(i)));
  EXPECT_TRUE(lines.is_news(1, "bad"));
}

}  // namespace
}  // namespace trainyard
