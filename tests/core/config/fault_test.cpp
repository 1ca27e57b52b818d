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
  EXPECT_EQ(slow.part, "tor_up:3:5");
  EXPECT_DOUBLE_EQ(slow.factor, 2);
  const Fault down = parse_fault("link_down link=nic_out:7 at=1s converge=200ms");
  EXPECT_EQ(down.kind, Fault::Kind::link_down);
  EXPECT_EQ(down.converge, seconds(0.2));
  EXPECT_EQ(down.lasts, kNever);
}

TEST(ParseFault, ReadsWhatBefallsPartsOfTheFabric) {
  const Fault flap =
      parse_fault("flap link=tor_up:3:5 at=1s down=2s up=10s cycles=3 converge=50ms");
  EXPECT_EQ(flap.kind, Fault::Kind::flap);
  EXPECT_EQ(flap.down, seconds(2));
  EXPECT_EQ(flap.up, seconds(10));
  EXPECT_EQ(flap.cycles, 3);
  EXPECT_EQ(parse_fault("switch_down switch=core:2:5 at=1s").part, "core:2:5");
  const Fault card = parse_fault("nic_down node=4 nic=7 for=10s");
  EXPECT_EQ(card.node, 4);
  EXPECT_EQ(card.nic, 7);
  EXPECT_DOUBLE_EQ(parse_fault("loss link=nic_in:1 rate=1e-4").rate, 1e-4);
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
                    std::pair{"flap link=nic_in:1", "flap needs down=a time"},
                    std::pair{"flap link=nic_in:1 down=0s", "down=\"0s\" is not a time"},
                    std::pair{"flap link=nic_in:1 down=1s cycles=0", "is not a count from 1"},
                    std::pair{"nic_down node=1", "nic_down needs nic="},
                    std::pair{"switch_down link=tor:1", "valid: switch, at, for, converge"},
                    std::pair{"loss link=nic_in:1 rate=1", "below 1"},
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
