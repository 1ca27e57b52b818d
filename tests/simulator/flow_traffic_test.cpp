#include <gtest/gtest.h>

#include <string>

#include "core/error.h"
#include "tests/simulator/flow_job.h"

namespace trainyard {
namespace {

TEST(FlowTraffic, AloneTakesOverheadBytesAndLatency) {
  HandBuilt first(0), second(1);
  const auto a = first.kernel(5);
  const auto sent = first.send(1, 0, 100, {a});
  const auto received = second.recv(-1, 0, 100);
  const auto result = run_flows(flow_job(2, 1), {first, second});
  EXPECT_EQ(end_of(result, 0, sent), 5 + 2 + 100 + 3);
  EXPECT_EQ(end_of(result, 1, received), 110);
  EXPECT_EQ(part(result, Cause::pipeline_comm), 105);
  EXPECT_DOUBLE_EQ(result.network->slowest_flow, 1);
}

// The middle stage sends to both neighbours. One starts 50 ns later: until then the first has the
// card alone, then each has half, then the second has what is left to itself.
TEST(FlowTraffic, SharesTheSendersCard) {
  HandBuilt first(0), middle(1), last(2);
  const auto a = middle.kernel(50);
  const auto forward = middle.send(1, 1, 100);
  const auto backward = middle.send(-1, 2, 100, {a});
  first.recv(1, 2, 100);
  const auto received = last.recv(-1, 1, 100);
  const auto result = run_flows(flow_job(3, 1), {first, middle, last});
  EXPECT_EQ(end_of(result, 1, forward), 2 + 50 + 100 + 3);
  EXPECT_EQ(end_of(result, 2, received), 155);
  EXPECT_EQ(end_of(result, 1, backward), 2 + 50 + 100 + 50 + 3);
  EXPECT_NEAR(result.network->slowest_flow, 100.0 / 150, 1e-9);
}

// All-reduce over four ranks: 2 x 3/4 of 400 bytes on every edge, from when the last has come.
TEST(FlowTraffic, RingLeavesWhenAllHaveComeAndIsOneFlowAnEdge) {
  Job job = flow_job(1, 4);
  job.faults.push_back(slow(2, 1.5));
  HandBuilt stage;
  const auto a = stage.kernel(20);
  const auto b = stage.collective(Group::data, 400, Stream::data, {a});
  const auto c = stage.kernel(1, {b});
  const auto result = run_flows(job, {stage});
  for (int rank = 0; rank < 4; ++rank) EXPECT_EQ(end_of(result, rank, b), 30 + 600 + 3 + 10);
  EXPECT_EQ(end_of(result, 0, c), 644);
  EXPECT_EQ(part(result, Cause::data_comm), 613);
}

// The gradient of a tied embedding, all-reduced by the first and the last of three stages: 2 x 1/2
// of 400 bytes on each card. The middle stage's message to the last takes half of the last one's
// way in until its 100 bytes are there; the ring is 100 bytes behind by then.
TEST(FlowTraffic, TiedEmbeddingsShareCardsWithMessages) {
  HandBuilt first(0), middle(1), last(2);
  const auto a = first.collective(Group::embedding, 400, Stream::data);
  middle.send(1, 0, 100);
  const auto received = last.recv(-1, 0, 100);
  const auto b = last.collective(Group::embedding, 400, Stream::data);
  for (const int replicas : {1, 2}) {
    const auto result = run_flows(flow_job(3, replicas), {first, middle, last});
    EXPECT_EQ(result.failure + result.stuck, "");
    EXPECT_EQ(end_of(result, 2 * replicas, received), 2 + 200 + 3);
    EXPECT_EQ(end_of(result, 0, a), 400 + 100 + 3 + 10);
    EXPECT_EQ(end_of(result, 2 * replicas, b), 400 + 100 + 3 + 10);
  }
}

// A ring over two stages' replicas meets nobody else's: but the message of the same rank's pipeline
// takes half of the card while it lasts.
TEST(FlowTraffic, RingAndMessageShareACard) {
  HandBuilt first(0), second(1);
  const auto ring = first.collective(Group::data, 200, Stream::data);  // 200 bytes an edge
  const auto sent = first.send(1, 0, 50);
  second.recv(-1, 0, 50);
  const auto result = run_flows(flow_job(2, 2), {first, second});
  EXPECT_EQ(end_of(result, 0, sent), 2 + 100 + 3);
  EXPECT_EQ(end_of(result, 0, ring), 200 + 50 + 3 + 10);
}

// Two tensor-parallel ranks on two nodes: all-reduces of 400 bytes, 2 x 1/2 of them on each card's
// way out and in. The first has the cards to itself; beside the second each rank's message to the
// next stage takes half of its card until its 50 bytes have gone.
TEST(FlowTraffic, TensorGroupsOnSeveralNodesShareCardsWithMessages) {
  HandBuilt first(0), second(1);
  const auto alone = first.collective(Group::tensor, 400, Stream::tensor);
  const auto sent = first.send(1, 0, 50, {alone});
  const auto beside = first.collective(Group::tensor, 400, Stream::tensor);
  second.recv(-1, 0, 50);
  const auto own = second.collective(Group::tensor, 400, Stream::tensor);
  Job job = flow_job(2, 1);
  job.parallel.tensor = 2;
  job.cluster.nodes = 4;
  const auto result = run_flows(job, {first, second});
  EXPECT_EQ(result.failure + result.stuck, "");
  const int once = 400 + 3 + 10;
  for (const int rank : {0, 1}) {
    EXPECT_EQ(end_of(result, rank, alone), once);
    EXPECT_EQ(end_of(result, rank, sent), once + 2 + 100 + 3);
    EXPECT_EQ(end_of(result, rank, beside), once + 400 + 50 + 3 + 10);
    EXPECT_EQ(end_of(result, 2 + rank, own), once);
  }
  EXPECT_EQ(part(result, Cause::tensor_comm), result.iteration.value);
}

// A lane that comes late holds up the ring; those of another replica do not wait for it.
TEST(FlowTraffic, TensorRingLeavesWhenTheLastLaneHasCome) {
  Job job = flow_job(1, 2);
  job.parallel.tensor = 2;
  job.cluster.nodes = 4;
  job.faults.push_back(slow(1, 1.5));
  HandBuilt stage;
  const auto a = stage.kernel(20);
  const auto b = stage.collective(Group::tensor, 400, Stream::tensor, {a});
  stage.kernel(1, {b});
  const auto result = run_flows(job, {stage});
  for (const int rank : {0, 1}) EXPECT_EQ(end_of(result, rank, b), 30 + 400 + 3 + 10);
  for (const int rank : {2, 3}) EXPECT_EQ(end_of(result, rank, b), 20 + 400 + 3 + 10);
}

Fault link_fault(Fault::Kind kind, Time at, Time lasts) {
  Fault fault;
  fault.kind = kind;
  fault.part = "nic_out:0";
  fault.at = at;
  fault.lasts = lasts;
  fault.factor = 4;
  return fault;
}

// 100 bytes leave at 2. Of a card that is four times as slow from 42 to 82, 10 bytes come in that
// time instead of 40; of one that is down, none.
TEST(FlowTraffic, WaitsForASlowOrDeadLinkThatReturns) {
  HandBuilt first(0), second(1);
  const auto sent = first.send(1, 0, 100);
  second.recv(-1, 0, 100);
  for (const auto& [kind, lost] :
       {std::pair(Fault::Kind::link_slow, 30), std::pair(Fault::Kind::link_down, 40)}) {
    Job job = flow_job(2, 1);
    job.faults.push_back(link_fault(kind, nanoseconds(42), nanoseconds(40)));
    job.faults.back().converge = nanoseconds(1000);
    EXPECT_EQ(end_of(run_flows(job, {first, second}), 0, sent), 105 + lost);
  }
}

// "Internal error: the network is at …, past …": of two lanes the second has a card of half the
// rate, so its message arrives 100 ns after the first one's; the answers of both leave when it has.
TEST(FlowTraffic, LanesOfAGangGoOnTogether) {
  HandBuilt first(0), second(1);
  first.send(1, 0, 100);
  const auto received = second.recv(-1, 0, 100);
  const auto answer = second.send(-1, 1, 50, {received});
  first.recv(1, 1, 50);
  Job job = flow_job(2, 1);
  job.parallel.tensor = 2;
  job.cluster.nodes = 4;
  job.faults.push_back(parse_fault("link_slow link=nic_out:1 factor=2"));
  const auto result = run_flows(job, {first, second});
  EXPECT_EQ(result.failure + result.stuck, "");
  EXPECT_EQ(end_of(result, 2, received), 2 + 100 + 3);
  EXPECT_EQ(end_of(result, 3, received), 2 + 200 + 3);
  EXPECT_EQ(end_of(result, 2, answer), 205 + 50 + 3);
  EXPECT_EQ(end_of(result, 3, answer), 205 + 2 + 50 + 3);
}

TEST(FlowTraffic, IsTheSameForAnyNumberOfThreadsAndWhetherFoldedOrNot) {
  const auto stages = one_f_one_b({4, 6, 30, 70, 40});
  const auto once = run_flows(flow_job(4, 8), stages);
  EXPECT_EQ(once.stuck, "");
  for (const int threads : {1, 4}) {
    const auto again = run_flows(flow_job(4, 8), stages, every_lane(threads));
    EXPECT_EQ(again.iteration, once.iteration);
    EXPECT_EQ(again.breakdown, once.breakdown);
  }
}

// Without contention the pipeline is what it is with closed forms: cards carry one message a time.
TEST(FlowTraffic, OfAPipelineWithoutContentionIsTheClosedForm) {
  const auto stages = gpipe({3, 4, 200, 200, 40});
  Job ideal = flow_job(3, 1);
  ideal.network.model = "ideal";
  class Closed final : public Costs {
   public:
    Time kernel(const KernelSpec& kernel) const override { return FlowCosts().kernel(kernel); }
    Time collective(Op, const GroupShape&, Bytes) const override { return {}; }
    Time transfer(Bytes bytes, const Route&) const override { return nanoseconds(bytes.value + 5); }
  };
  EXPECT_EQ(run_flows(flow_job(3, 1), stages).iteration,
            execute(ideal, set_of(stages), {}, Closed()).iteration);
}

}  // namespace
}  // namespace trainyard
