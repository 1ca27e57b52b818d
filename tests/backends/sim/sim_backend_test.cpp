#include "backends/sim/sim_backend.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/engine/step_loop.h"
#include "core/error.h"
#include "tests/simulator/hand_built.h"

namespace trainyard {
namespace {

// A step of known length without any GPU profile: the loader thread works for 3 ms.
Job loading_job() {
  Job job = hand_job(2, 1, 2);
  job.measured.data_loading_ms = 3;
  return job;
}
ProgramSet loading_step() {
  HandBuilt stage;
  stage.host(HostWork::load_batch);
  return set_of(std::vector{stage});
}

TEST(SimBackend, OwnsEveryRankOfTheJob) {
  const SimBackend backend(hand_job(2, 2, 3));
  ASSERT_EQ(backend.local_ranks().size(), 12);
  EXPECT_EQ(backend.local_ranks()[11], RankId(11));
}

TEST(SimBackend, ClockGoesOnByEachStep) {
  const Job job = loading_job();
  SimBackend backend(job);
  backend.connect(job.mesh());
  for (int step = 0; step < 2; ++step) {
    const StepReport report = run_step(backend, loading_step(), job.mesh(), {step}, kNever);
    EXPECT_EQ(report.outcome, Outcome::done);
    EXPECT_EQ(report.elapsed, seconds(3e-3));
  }
  EXPECT_EQ(backend.now(), seconds(6e-3));
}

TEST(SimBackend, DeadlineEndsTheStep) {
  const Job job = loading_job();
  SimBackend backend(job);
  const StepReport report = run_step(backend, loading_step(), job.mesh(), {}, seconds(1e-3));
  EXPECT_EQ(report.outcome, Outcome::timeout);
  EXPECT_EQ(backend.now(), seconds(1e-3));
}

TEST(SimBackend, StuckStepIsAFaultThatNamesWhoWaits) {
  HandBuilt first(0), second(1);
  first.send(1, 4, 1);
  second.host(HostWork::read_scalar);
  const Job job = hand_job(1, 2);
  SimBackend backend(job);
  const StepReport report =
      run_step(backend, set_of(std::vector{first, second}), job.mesh(), {}, kNever);
  EXPECT_EQ(report.outcome, Outcome::fault);
  EXPECT_THAT(report.message, ::testing::HasSubstr("rank 0 instruction 0 send"));
}

TEST(SimBackend, RankWithoutProgramIsOurMistake) {
  SimBackend backend(hand_job(1, 1, 2));
  const ProgramSet programs = loading_step();
  backend.submit(RankId(0), *programs.by_stage[0], {});
  EXPECT_THROW(backend.wait(kNever), InternalError);
}

}  // namespace
}  // namespace trainyard
