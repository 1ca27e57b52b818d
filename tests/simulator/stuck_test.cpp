#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/error.h"
#include "tests/simulator/hand_built.h"

namespace trainyard {
namespace {

using ::testing::HasSubstr;

TEST(Stuck, NamesTheReceiveThatNobodyAnswers) {
  HandBuilt first(0), second(1);
  first.kernel(5);
  second.pass(PassKind::forward, 3);
  const auto in = second.recv(-1, 17, 1);
  second.kernel(1, {in});
  const auto result = run(hand_job(1, 2), {first, second});
  EXPECT_THAT(result.stuck,
              HasSubstr("rank 1 instruction 0 recv on forward_in (forward, micro-batch 3, chunk 0) "
                        "waits for rank 0 to send tag 17, which its program never does"));
  EXPECT_THAT(result.stuck, HasSubstr("rank 1 instruction 1 kernel on compute (forward, "
                                      "micro-batch 3, chunk 0) waits for its own instruction 0"));
}

TEST(Stuck, NamesBothSidesOfACrossedRendezvous) {
  // Each sends on one stream before it receives on the same one.
  std::vector<HandBuilt> stages{HandBuilt(0), HandBuilt(1)};
  for (HandBuilt& stage : stages) {
    stage.send(1, 0, 1);
    stage.at(stage.recv(-1, 0, 1)).stream = Stream::forward_out;
  }
  const auto result = run(hand_job(1, 2), stages);
  EXPECT_THAT(result.stuck, HasSubstr("rank 0 instruction 0 send on forward_out waits for rank 1 "
                                      "to receive tag 0 (instruction 1, it is at 0)"));
  EXPECT_THAT(result.stuck, HasSubstr("rank 1 instruction 0 send on forward_out waits for rank 0 "
                                      "to receive tag 0 (instruction 1, it is at 0)"));
}

TEST(Stuck, NamesTheMissingMembersOfACollective) {
  HandBuilt first(0), second(1);
  first.collective(Group::model, 1, Stream::data);
  second.kernel(1);
  const auto result = run(hand_job(2, 2), {first, second});
  EXPECT_THAT(result.stuck,
              HasSubstr("rank 0 instruction 0 all_reduce on data waits for rank 2 (ended) in its "
                        "model group"));
}

TEST(Stuck, ListIsBounded) {
  HandBuilt stage;
  stage.recv(1, 0, 1);
  const auto result = run(hand_job(1, 1, 64), {stage});
  EXPECT_EQ(std::count(result.stuck.begin(), result.stuck.end(), '\n'), 40);
  EXPECT_THAT(result.stuck, HasSubstr("… and 24 more"));
}

TEST(Books, MessagesOfDifferentSizeAreNotBalanced) {
  HandBuilt first(0), second(1);
  first.send(1, 0, 5);
  second.recv(-1, 0, 6);
  EXPECT_THROW(run(hand_job(1, 2), {first, second}), InternalError);
}

TEST(Books, StagesMustAgreeOnTheirCollectives) {
  HandBuilt first(0), second(1);
  first.collective(Group::model, 1, Stream::data);
  second.collective(Group::model, 2, Stream::data);
  EXPECT_THROW(run(hand_job(1, 2), {first, second}), InternalError);
}

TEST(Books, NoStepIsFasterThanTheGpuAllows) {
  Job job = hand_job();
  job.cluster.gpu.peak_bf16 = {0.5e9};  // FLOP/s: 10 FLOPs need 20 ns, and take 10
  HandBuilt stage;
  stage.kernel(10);
  EXPECT_THROW(run(job, {stage}), InternalError);
}

}  // namespace
}  // namespace trainyard
