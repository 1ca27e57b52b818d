#include <gtest/gtest.h>

#include "tests/simulator/hand_built.h"

namespace trainyard {
namespace {

TEST(Execution, StreamsRunInOrderAndBesideEachOther) {
  HandBuilt stage;
  const auto a = stage.kernel(10);
  const auto b = stage.collective(Group::tensor, 7, Stream::tensor, {a});
  const auto c = stage.kernel(4);
  const auto d = stage.kernel(1, {b});
  const auto result = run(hand_job(), {stage});
  EXPECT_EQ(end_of(result, 0, b), 10);  // a group of one has nobody to talk to
  EXPECT_EQ(end_of(result, 0, c), 14);
  EXPECT_EQ(end_of(result, 0, d), 15);
  EXPECT_EQ(result.iteration, nanoseconds(15));
}

TEST(Execution, TensorCollectiveEndsItsDurationAfterTheLastLane) {
  Job job = hand_job(4);
  job.faults.push_back(slow(2, 1.5));
  HandBuilt stage;
  const auto a = stage.kernel(10);
  const auto b = stage.collective(Group::tensor, 7, Stream::tensor, {a});
  const auto result = run(job, {stage});
  EXPECT_EQ(start_of(result, 0, b), 10);  // waits in the collective
  EXPECT_EQ(start_of(result, 2, b), 15);
  for (int rank = 0; rank < 4; ++rank) EXPECT_EQ(end_of(result, rank, b), 22);
}

TEST(Execution, TransferStartsWhenBothSidesHaveReachedIt) {
  HandBuilt first(0), second(1);
  const auto a = first.kernel(5);
  const auto sent = first.send(1, 0, 7, {a});
  const auto b = second.kernel(30);
  const auto received = second.recv(-1, 0, 7, {b});
  const auto result = run(hand_job(1, 2), {first, second});
  EXPECT_EQ(end_of(result, 0, sent), 37);
  EXPECT_EQ(end_of(result, 1, received), 37);
}

// 7 and 5 bytes leave a rank at once and share its links: 5 are sent after 10 ns, the rest
// after 12.
TEST(Execution, MessagesOfOneGroupShareTheirSendersLinks) {
  HandBuilt first(0), middle(1), last(2);
  const auto backward = first.recv(1, 0, 5);
  middle.send(-1, 0, 5);
  const auto out = middle.send(1, 1, 7);
  middle.at(out).stream = middle.at(out - 1).stream;
  middle.group_last(2);
  const auto forward = last.recv(-1, 1, 7);
  const auto result = run(hand_job(1, 3), {first, middle, last});
  EXPECT_EQ(end_of(result, 0, backward), 10);
  EXPECT_EQ(end_of(result, 2, forward), 12);
  EXPECT_EQ(end_of(result, 1, out), 12);
}

// A quarter of 40 bytes leaves each of four tensor ranks; what came in is gathered, 40 bytes long.
TEST(Execution, ScatteredMessageTakesItsPartAndTheGathering) {
  Job job = hand_job(4, 2);
  job.software.scattered_messages = true;
  HandBuilt first(0), second(1);
  const auto sent = first.send(1, 0, 40);
  const auto received = second.recv(-1, 0, 40);
  const auto result = run(job, {first, second});
  EXPECT_EQ(end_of(result, 0, sent), 10 + 40);
  EXPECT_EQ(end_of(result, 4, received), 10 + 40);
  job.parallel.sequence = true;  // each rank has its own part already
  EXPECT_EQ(run(job, {first, second}).iteration, nanoseconds(40));
}

TEST(Execution, GradientsInTheTrainingsPrecisionHalveTheirSums) {
  Job job = hand_job(2, 1, 2);
  job.software.fp32_gradients = false;
  HandBuilt stage;
  const auto sum = stage.collective(Group::data, 60, Stream::data);
  const auto activations = stage.collective(Group::tensor, 60, Stream::tensor);
  EXPECT_EQ(end_of(run(job, {stage}), 0, sum), 30);
  EXPECT_EQ(end_of(run(job, {stage}), 0, activations), 60);
  job.training.precision = Precision::fp32;
  EXPECT_EQ(end_of(run(job, {stage}), 0, sum), 60);
}

TEST(Execution, GroupEndsWithItsLastMemberAndPeersEndWithTheirOwn) {
  HandBuilt first(0), second(1);
  const auto out = first.send(1, 1, 7);
  const auto in = first.recv(1, 2, 5);
  first.at(in).stream = Stream::forward_out;
  first.group_last(2);
  const auto next = first.send(1, 3, 1);
  const auto early = second.recv(-1, 1, 7);
  const auto slow = second.kernel(100);
  const auto answer = second.send(-1, 2, 5, {slow});
  second.recv(-1, 3, 1);
  const auto result = run(hand_job(1, 2), {first, second});
  EXPECT_EQ(end_of(result, 1, early), 7);
  EXPECT_EQ(end_of(result, 1, answer), 105);
  EXPECT_EQ(end_of(result, 0, out), 105);
  EXPECT_EQ(end_of(result, 0, in), 105);
  EXPECT_EQ(end_of(result, 0, next), 106);
}

TEST(Execution, GroupAcrossStreamsHoldsUpAllOfThem) {
  HandBuilt first(0), second(1);
  const auto a = first.kernel(20);
  first.send(1, 1, 7, {a});
  first.recv(1, 2, 5);  // backward_in
  first.group_last(2);
  const auto next = first.send(1, 3, 2);
  const auto in = second.recv(-1, 1, 7);
  second.send(-1, 2, 5);
  second.recv(-1, 3, 2);
  const auto result = run(hand_job(1, 2), {first, second});
  EXPECT_EQ(end_of(result, 1, in), 27);
  EXPECT_EQ(end_of(result, 0, next), 29);
}

// A rank that stopped at its first receive would never send what its peer needs to answer.
TEST(Execution, PendingReceiveHoldsUpItsOwnStreamOnly) {
  HandBuilt first(0), second(1);
  const auto in = first.recv(1, 9, 1);
  const auto a = first.kernel(10);
  first.send(1, 1, 2, {a});
  const auto last = first.kernel(3, {in});
  const auto b = second.recv(-1, 1, 2);
  const auto c = second.kernel(20, {b});
  second.send(-1, 9, 1, {c});
  const auto result = run(hand_job(1, 2), {first, second});
  ASSERT_EQ(result.stuck, "");
  EXPECT_EQ(end_of(result, 0, in), 33);  // 10 + 2 + 20 + 1
  EXPECT_EQ(end_of(result, 0, last), 36);
}

// Compute stalls on a message from the next stage, which sends it only after its earlier message
// has been taken: by a receive that stands behind the stalled kernel.
TEST(Execution, ReceiveBehindAStalledKernelIsPosted) {
  HandBuilt first(0), second(1);
  const auto late = first.recv(-1, 5, 1);  // of two stages, the previous is the next
  first.kernel(10, {late});
  const auto early = first.recv(1, 6, 1);
  const auto a = second.kernel(4);
  const auto b = second.send(-1, 6, 1, {a});
  const auto c = second.kernel(8, {b});
  second.send(1, 5, 1, {c});
  const auto result = run(hand_job(1, 2), {first, second});
  ASSERT_EQ(result.stuck, "");
  EXPECT_EQ(end_of(result, 0, early), 5);
  EXPECT_EQ(end_of(result, 0, late), 14);
  EXPECT_EQ(result.iteration, nanoseconds(24));
}

TEST(Execution, EqualTagsAreMatchedInOrder) {
  HandBuilt first(0), second(1);
  const auto a = first.send(1, 0, 3);
  const auto b = first.send(1, 0, 4);
  const auto c = second.recv(-1, 0, 3);
  const auto d = second.recv(-1, 0, 4);
  const auto result = run(hand_job(1, 2), {first, second});
  EXPECT_EQ(end_of(result, 0, a), 3);
  EXPECT_EQ(end_of(result, 1, c), 3);
  EXPECT_EQ(end_of(result, 0, b), 7);
  EXPECT_EQ(end_of(result, 1, d), 7);
}

TEST(Execution, CollectivesAcrossReplicasStartWithTheLatestMember) {
  Job job = hand_job(2, 1, 3);  // rank = tensor + 2 * data
  job.faults.push_back(late(5, nanoseconds(40)));
  HandBuilt stage;
  const auto a = stage.kernel(10);
  const auto b = stage.collective(Group::data, 6, Stream::data, {a});
  const auto c = stage.collective(Group::world, 3, Stream::data, {b});
  const auto result = run(job, {stage});
  for (const int rank : {0, 2, 4}) EXPECT_EQ(end_of(result, rank, b), 16) << rank;
  for (const int rank : {1, 3, 5}) EXPECT_EQ(end_of(result, rank, b), 56) << rank;
  for (int rank = 0; rank < 6; ++rank) EXPECT_EQ(end_of(result, rank, c), 59) << rank;
}

// rank = tensor + 2 * context + 4 * data: the late rank 1 keeps rank 3, which has the other part of
// its sequences, but no other replica.
TEST(Execution, ContextRanksWaitForThoseTheyShareSequencesWith) {
  Job job = hand_job(2, 1, 2);
  job.parallel.context = 2;
  job.faults.push_back(late(1, nanoseconds(40)));
  HandBuilt stage;
  const auto a = stage.kernel(10);
  const auto b = stage.collective(Group::context, 6, Stream::tensor, {a});
  const auto c = stage.kernel(2, {b});
  for (const bool fold : {false, true}) {
    SimulationOptions options;
    options.fold = fold;
    const auto result = run(job, {stage}, options);
    for (const int rank : {1, 3}) EXPECT_EQ(end_of(result, rank, b), 56) << rank;
    for (const int rank : {0, 2, 4, 5, 6, 7}) EXPECT_EQ(end_of(result, rank, b), 16) << rank;
    EXPECT_EQ(end_of(result, 3, c), 58);
    EXPECT_EQ(part(result, Cause::context_comm), 6);
    EXPECT_EQ(part(result, Cause::compute), 12);
  }
}

TEST(Execution, ModelAndEmbeddingGroupsMeetAcrossStages) {
  std::vector<HandBuilt> stages;
  for (int s = 0; s < 3; ++s) {
    HandBuilt& stage = stages.emplace_back(s);
    const auto a = stage.kernel(10 * (s + 1));
    if (s != 1) stage.collective(Group::embedding, 5, Stream::data, {a});
    stage.collective(Group::model, 7, Stream::data, {a});
  }
  const auto result = run(hand_job(2, 3), stages);
  EXPECT_EQ(end_of(result, 0, 1), 35);
  EXPECT_EQ(end_of(result, 4, 1), 35);    // rank = tensor + 2 * stage
  EXPECT_EQ(start_of(result, 2, 1), 20);  // the middle stage waits for the others' second
  for (const int rank : {1, 5}) EXPECT_EQ(end_of(result, rank, 2), 42);
  EXPECT_EQ(end_of(result, 2, 1), 42);
}

TEST(Execution, OneFOneBTakesTheClosedFormTime) {
  // (m + p - 1)(F + B), Narayanan et al., arXiv 2104.04473, section 2.2
  for (const int p : {1, 2, 4, 8})
    for (const int m : {p, 2 * p, 4 * p}) {
      const auto result = run(hand_job(1, p), one_f_one_b({p, m, 10, 20}));
      EXPECT_EQ(result.iteration, nanoseconds((m + p - 1) * 30)) << p << " " << m;
      EXPECT_EQ(part(result, Cause::bubble), (p - 1) * 30) << p << " " << m;
      EXPECT_EQ(part(result, Cause::compute), m * 30) << p << " " << m;
    }
}

TEST(Execution, GPipeTakesTheClosedFormTime) {
  for (const int p : {2, 4, 8}) {
    const int m = 2 * p;
    const auto result = run(hand_job(1, p), gpipe({p, m, 10, 20}));
    EXPECT_EQ(result.iteration, nanoseconds((m + p - 1) * 30));
    EXPECT_EQ(part(result, Cause::bubble), (p - 1) * 30);
    EXPECT_EQ(part(result, Cause::compute), m * 30);
  }
}

TEST(Execution, MessagesOnTheCriticalPathAreAddedUp) {
  // Two stages, one micro-batch: forward, message, forward, backward, message, backward.
  const auto result = run(hand_job(1, 2), one_f_one_b({2, 1, 10, 20, 3}));
  EXPECT_EQ(result.iteration, nanoseconds(66));
  EXPECT_EQ(part(result, Cause::pipeline_comm), 6);
}

}  // namespace
}  // namespace trainyard
