#include "core/engine/learning_rate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "core/error.h"

namespace trainyard {
namespace {

using testing::HasSubstr;

Optimization falling(LearningRateSchedule schedule, std::int64_t warmup) {
  Optimization how;
  how.learning_rate = 0.8;
  how.min_learning_rate = 0.2;
  how.schedule = schedule;
  how.warmup_steps = warmup;
  return how;
}

TEST(LearningRate, RisesInALineToTheHighestAtTheLastWarmUpStep) {
  for (const auto schedule : {LearningRateSchedule::constant, LearningRateSchedule::linear,
                              LearningRateSchedule::cosine}) {
    const Optimization how = falling(schedule, 4);
    EXPECT_DOUBLE_EQ(learning_rate(how, 11, 0), 0.2);
    EXPECT_DOUBLE_EQ(learning_rate(how, 11, 1), 0.4);
    EXPECT_DOUBLE_EQ(learning_rate(how, 11, 2), 0.6);
    EXPECT_DOUBLE_EQ(learning_rate(how, 11, 3), 0.8);
  }
}

TEST(LearningRate, StaysAtTheHighestWhenConstant) {
  const Optimization how = falling(LearningRateSchedule::constant, 2);
  for (const std::int64_t step : {1, 2, 50, 99, 1000})
    EXPECT_EQ(learning_rate(how, 100, step), 0.8);
}

// From step 3 to step 10 in seven equal parts of 0.6 / 7.
TEST(LearningRate, FallsInALineToTheLowestAtTheLastStep) {
  const Optimization how = falling(LearningRateSchedule::linear, 4);
  EXPECT_DOUBLE_EQ(learning_rate(how, 11, 4), 0.8 - 0.6 / 7);
  EXPECT_DOUBLE_EQ(learning_rate(how, 11, 9), 0.2 + 0.6 / 7);
  EXPECT_EQ(learning_rate(how, 11, 10), 0.2);
}

// A third of the way cos(pi/3) = 1/2: 0.2 + 0.6 * 3/4; half way 0.5; two thirds 0.2 + 0.6 / 4.
TEST(LearningRate, FallsAsHalfACosineToTheLowestAtTheLastStep) {
  const Optimization how = falling(LearningRateSchedule::cosine, 0);
  EXPECT_EQ(learning_rate(how, 13, 0), 0.8);
  EXPECT_NEAR(learning_rate(how, 13, 4), 0.65, 1e-15);
  EXPECT_NEAR(learning_rate(how, 13, 6), 0.5, 1e-15);
  EXPECT_NEAR(learning_rate(how, 13, 8), 0.35, 1e-15);
  EXPECT_EQ(learning_rate(how, 13, 12), 0.2);
}

TEST(LearningRate, StaysAtTheLowestAfterTheLastStep) {
  for (const auto schedule : {LearningRateSchedule::linear, LearningRateSchedule::cosine})
    for (const std::int64_t step : {13, 14, 1000000})
      EXPECT_EQ(learning_rate(falling(schedule, 4), 13, step), 0.2);
}

TEST(LearningRate, OfATrainingNotLongerThanItsWarmUpOnlyRises) {
  const Optimization how = falling(LearningRateSchedule::cosine, 8);
  EXPECT_DOUBLE_EQ(learning_rate(how, 4, 3), 0.4);
  EXPECT_DOUBLE_EQ(learning_rate(how, 8, 7), 0.8);
}

TEST(LearningRate, OfASingleStepIsTheHighest) {
  EXPECT_EQ(learning_rate(falling(LearningRateSchedule::cosine, 0), 1, 0), 0.8);
  EXPECT_EQ(learning_rate(falling(LearningRateSchedule::linear, 1), 1, 0), 0.8);
}

Job batches_of_eight_tokens() {
  Job job;
  job.batch = {.global_sequences = 2, .micro_sequences = 1, .sequence_length = 4};
  return job;
}

TEST(TotalSteps, AreThoseStatedWhateverTheTokens) {
  Job job = batches_of_eight_tokens();
  job.optimization.steps = 7;
  job.training.total_tokens = 1e9;
  EXPECT_EQ(total_steps(job), 7);
}

TEST(TotalSteps, HoldAllTokensTheLastBatchNotFull) {
  Job job = batches_of_eight_tokens();
  job.training.total_tokens = 16;
  EXPECT_EQ(total_steps(job), 2);
  job.training.total_tokens = 17;
  EXPECT_EQ(total_steps(job), 3);
  job.training.total_tokens = 1;
  EXPECT_EQ(total_steps(job), 1);
}

TEST(TotalSteps, MustBeGivenOneWayOrTheOther) {
  try {
    total_steps(batches_of_eight_tokens());
    FAIL();
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), HasSubstr("training.steps"));
    EXPECT_THAT(error.what(), HasSubstr("training.total_tokens"));
  }
}

}  // namespace
}  // namespace trainyard
