#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/config/job.h"
#include "core/error.h"

namespace trainyard {
namespace {

TEST(ParseFault, ReadsASlowNodeForAWhile) {
  const Fault fault = parse_fault("slow node=17 at=30s for=2.5ms factor=1.1");
  EXPECT_EQ(fault.kind, Fault::Kind::slow);
  EXPECT_EQ(fault.node, 17);
  EXPECT_EQ(fault.rank, -1);
  EXPECT_EQ(fault.at, seconds(30));
  EXPECT_EQ(fault.lasts, microseconds(2500));
  EXPECT_DOUBLE_EQ(fault.factor, 1.1);
}

TEST(ParseFault, MakesASlowRankSlowFromTheStartForEver) {
  const Fault fault = parse_fault("  slow   rank=7 factor=2 ");
  EXPECT_EQ(fault.rank, 7);
  EXPECT_EQ(fault.at, Time{});
  EXPECT_EQ(fault.lasts, kNever);
}

TEST(ParseFault, ReadsLateRanksAndJitter) {
  const Fault late = parse_fault("late rank=3 at=250us");
  EXPECT_EQ(late.kind, Fault::Kind::late);
  EXPECT_EQ(late.at, microseconds(250));
  EXPECT_DOUBLE_EQ(parse_fault("jitter sigma=0.02").sigma, 0.02);
}

TEST(ParseFault, ReadsSlowAndDeadLinks) {
  const Fault slow = parse_fault("link_slow link=tor_up:3:5 factor=2 for=1s");
  EXPECT_EQ(slow.link, "tor_up:3:5");
  EXPECT_DOUBLE_EQ(slow.factor, 2);
  const Fault down = parse_fault("link_down link=nic_out:7 at=1s converge=200ms");
  EXPECT_EQ(down.kind, Fault::Kind::link_down);
  EXPECT_EQ(down.converge, seconds(0.2));
  EXPECT_EQ(down.lasts, kNever);
}

class BadFault : public testing::TestWithParam<std::pair<const char*, const char*>> {};

TEST_P(BadFault, IsRefusedNamingTheWord) {
  const auto [line, fragment] = GetParam();
  try {
    parse_fault(line);
    FAIL() << "accepted: " << line;
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr(fragment));
  }
}

INSTANTIATE_TEST_SUITE_P(
    Lines, BadFault,
    testing::Values(std::pair{"", "is empty"}, std::pair{"   ", "is empty"},
                    std::pair{"crash rank=1", "no kind \"crash\"; valid: slow, late, jitter"},
                    std::pair{"link_slow link=tor_up:3:5", "link_slow needs factor="},
                    std::pair{"link_down link=", "is not a link of the fabric"},
                    std::pair{"slow rank=1 facter=2",
                              "does not take \"facter\"; valid: rank, node, at, for, "
                              "factor; did you mean factor?"},
                    std::pair{"slow factor=2", "needs one of rank=… and node=…"},
                    std::pair{"slow rank=1 node=1 factor=2", "needs one of rank=… and node=…"},
                    std::pair{"slow rank=1", "slow needs factor="},
                    std::pair{"slow rank=1 rank=2 factor=2", "rank is given twice"},
                    std::pair{"slow rank=-1 factor=2", "rank=\"-1\" is not an index"},
                    std::pair{"slow rank=1x factor=2", "rank=\"1x\" is not an index"},
                    std::pair{"slow rank=99999999999 factor=2", "is not an index"},
                    std::pair{"slow rank factor=2", "rank=\"\" is not an index"},
                    std::pair{"slow rank=1 factor=0", "is not a number above 0"},
                    std::pair{"slow rank=1 factor=nan", "is not a number above 0"},
                    std::pair{"slow rank=1 factor=2 at=10", "at=\"10\" is not a time with unit"},
                    std::pair{"slow rank=1 factor=2 at=-1s", "is not a time with unit"},
                    std::pair{"late rank=1", "late needs at="},
                    std::pair{"jitter rank=1 sigma=1", "jitter does not take \"rank\""}));

}  // namespace
}  // namespace trainyard
