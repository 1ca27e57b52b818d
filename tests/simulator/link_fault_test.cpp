#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "core/error.h"
#include "tests/simulator/flow_job.h"

namespace trainyard {
namespace {

using testing::HasSubstr;

// A message of 100 bytes from node 0 to node 1 leaves at 2 ns over cards of one byte a nanosecond
// and arrives 3 ns after its last byte: at 105. Senders fall silent after 10 bytes without an
// answer, and try again each 8,192 ns (timeout 1), seven times.
class LinkFaults : public testing::Test {
 protected:
  static constexpr std::int64_t kTimer = 8192;

  static Job job(const std::string& fault, std::int32_t pipeline = 2) {
    Job job = flow_job(pipeline, 1);
    job.network.ib_timeout = 1;
    job.network.send_window = Bytes{10};
    job.faults.push_back(parse_fault(fault));
    return job;
  }
  static SimulationResult run(const Job& job) {
    HandBuilt first(0), second(1);
    first.send(1, 0, 100);
    second.recv(-1, 0, 100);
    return run_flows(job, {first, second});
  }
  static std::int64_t end(const std::string& fault) { return run(job(fault)).iteration.value; }
};

TEST_F(LinkFaults, ShortOutageIsNoticedBeforeTheSenderFallsSilent) {
  EXPECT_EQ(end("link_down link=nic_out:0 at=42ns for=10ns"), 105 + 10);
  EXPECT_EQ(run(job("link_down link=nic_out:0 at=42ns for=10ns")).network->longest_stall.value, 10);
}

// 40 bytes are through at 42. Up at 62, but the sender tries again a timer after the loss; the
// other 60 bytes follow.
TEST_F(LinkFaults, LongerOutageLastsUntilTheSendersTimerRunsOut) {
  EXPECT_EQ(end("link_down link=nic_out:0 at=42ns for=20ns"), 42 + kTimer + 60 + 3);
  EXPECT_EQ(end("link_down link=nic_out:0 at=42ns for=9us"), 42 + 2 * kTimer + 60 + 3);
}

// The seventh retry leaves 57,344 ns after the loss; the error follows a timer later.
TEST_F(LinkFaults, SenderGivesUpAfterItsRetriesAndNamesThePair) {
  EXPECT_EQ(end("link_down link=nic_out:0 at=42ns for=57us"), 42 + 7 * kTimer + 60 + 3);
  const auto result = run(job("link_down link=nic_out:0 at=42ns for=58us"));
  EXPECT_EQ(result.iteration.value, 42 + 8 * kTimer);
  EXPECT_THAT(result.failure, HasSubstr("from GPU 0 of node 0 to GPU 0 of node 1 (ranks 0 and 1)"));
  EXPECT_THAT(result.failure, HasSubstr("after 7 retries"));
}

TEST_F(LinkFaults, TimeoutAndRetryCountAreNccls) {
  Job more = job("link_down link=nic_out:0 at=42ns for=20us");
  more.network.ib_timeout = 2;  // 16,384 ns
  EXPECT_EQ(run(more).iteration.value, 42 + 2 * 2 * kTimer + 60 + 3);
  more.network.ib_retry_count = 1;
  EXPECT_EQ(run(more).iteration.value, 42 + 2 * 2 * kTimer);
  EXPECT_NE(run(more).failure, "");
}

// Retries 4, 12, 28 us after the loss, then each timer of 4.096 us * 8.
TEST_F(LinkFaults, AdaptiveRetransmissionTriesSoonAndThenLessAndLess) {
  Job soon = job("link_down link=nic_out:0 at=42ns for=13us");
  soon.network.ib_timeout = 3;
  soon.network.adaptive_retransmission = true;
  EXPECT_EQ(run(soon).iteration.value, 42 + 28'000 + 60 + 3);
  soon.faults = {parse_fault("link_down link=nic_out:0 at=42ns for=29us")};
  EXPECT_EQ(run(soon).iteration.value, 42 + 32'768 + 60 + 3);
}

// Nobody knows that it is down, and it never returns.
TEST_F(LinkFaults, DeadLinkForEverIsNoHang) {
  const auto result = run(job("link_down link=nic_out:0 converge=1000s"));
  EXPECT_EQ(result.iteration.value, 2 + 8 * kTimer);
  EXPECT_THAT(result.failure, HasSubstr("cable from card 0 of node 0 is down"));
}

TEST_F(LinkFaults, PartedNetworkNamesTheUnreachablePair) {
  const auto result = run(job("link_down link=nic_in:1 at=10ns"));
  EXPECT_THAT(result.failure, HasSubstr("no path is left from GPU 0 of node 0 to GPU 0 of node 1"));
  EXPECT_EQ(result.iteration.value, 10 + 8 * kTimer);
}

// Both directions: the message comes in over the cable whose way out is named. Down 42 to 52 and 72
// to 82, each within the window.
TEST_F(LinkFaults, FlapTakesBothDirectionsDownAgainAndAgain) {
  EXPECT_EQ(end("flap link=nic_out:1 at=42ns down=10ns up=20ns cycles=2"), 105 + 20);
  EXPECT_EQ(end("flap link=nic_out:1 at=42ns down=10ns up=20ns"), 105 + 10);
}

// A retry that meets the second down phase waits for the next.
TEST_F(LinkFaults, RetryDuringTheNextFlapIsLostToo) {
  EXPECT_EQ(end("flap link=nic_out:1 at=42ns down=8us up=100ns cycles=2"),
            42 + 2 * kTimer + 60 + 3);
}

TEST_F(LinkFaults, SwitchDownTakesAllItsCablesWithIt) {
  EXPECT_EQ(end("switch_down switch=tor:0 at=42ns for=10ns"), 105 + 10);
  EXPECT_THAT(run(job("switch_down switch=tor:0 at=42ns")).failure, HasSubstr("no path is left"));
}

// Node 2's card concerns nobody; node 1's does.
TEST_F(LinkFaults, CardDownCutsItsNodeOff) {
  HandBuilt first(0), second(1), third(2);
  first.send(1, 0, 100);
  second.recv(-1, 0, 100);
  third.kernel(1);
  const auto run3 = [&](const char* fault) {
    return run_flows(job(fault, 3), {first, second, third});
  };
  EXPECT_EQ(run3("nic_down node=2 nic=0 at=42ns").iteration.value, 105);
  EXPECT_EQ(run3("nic_down node=1 nic=0 at=42ns for=10ns").iteration.value, 115);
  EXPECT_THAT(run3("nic_down node=1 nic=0 at=42ns").failure, HasSubstr("to GPU 0 of node 1"));
}

// Of 1,000-byte packets at one a microsecond with 6 ns of round trip, each loss costs 1.006
// packets: goodput 0.9 / (0.9 + 0.1 * 1.006) = 0.8995. Until it ends the fault has cost its part of
// the time.
TEST_F(LinkFaults, LossCostsWhatIsSentAgain) {
  Job lossy = job("loss link=nic_out:0 rate=0.1");
  lossy.network.mtu = Bytes{1000};
  lossy.seed = 3;  // a seed by which the last packet arrives
  EXPECT_EQ(run(lossy).iteration.value, 2 + 112 + 3);
  EXPECT_EQ(run(job("loss link=nic_out:0 rate=0.5 at=200ns")).iteration.value, 105);
}

// Nothing tells the receiver of a lost last packet: the timer does.
TEST_F(LinkFaults, LostLastPacketCostsATimer) {
  int stalled = 0;
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    Job lossy = job("loss link=nic_out:0 rate=0.2");
    lossy.seed = seed;
    const std::int64_t over = run(lossy).iteration.value - 2 - 125 - 3;
    EXPECT_NEAR(static_cast<double>(over % kTimer), 0, 2) << over;
    stalled += over > 1000 ? 1 : 0;
  }
  EXPECT_NEAR(stalled, 40, 17);  // three deviations of a fifth of 200
}

// The message of one pair of ranks stalls; the step waits for it, and that is what it says.
TEST_F(LinkFaults, StallIsPartOfTheStepsPipelineTime) {
  const auto result = run(job("link_down link=nic_out:0 at=42ns for=20ns"));
  EXPECT_EQ(part(result, Cause::pipeline_comm), 42 + kTimer + 60 + 3);
  EXPECT_EQ(result.network->stalls, 1);
  EXPECT_EQ(result.network->longest_stall.value, kTimer);
}

// A data-parallel ring stops as a whole when one of its edges does.
TEST_F(LinkFaults, RingWaitsForItsDeadEdge) {
  Job ring = flow_job(1, 4);
  ring.network.ib_timeout = 1;
  ring.network.send_window = Bytes{10};
  ring.faults.push_back(parse_fault("flap link=nic_out:2 at=100ns down=20ns"));
  HandBuilt stage;
  const auto reduced = stage.collective(Group::data, 400, Stream::data);  // 600 bytes an edge
  const auto result = run_flows(ring, {stage});
  EXPECT_EQ(end_of(result, 0, reduced), 600 + kTimer + 3 + 10);
}

TEST_F(LinkFaults, UnknownPartsOfTheFabricAreNamed) {
  EXPECT_THROW(run(job("switch_down switch=tor:1")), ConfigError);
  EXPECT_THROW(run(job("switch_down switch=spine:0")), ConfigError);
  EXPECT_THROW(run(job("switch_down switch=core:0:0")), ConfigError);
  EXPECT_THROW(run(job("flap link=nic_out:9 down=1s")), ConfigError);
}

}  // namespace
}  // namespace trainyard
