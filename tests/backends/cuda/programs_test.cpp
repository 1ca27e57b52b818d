#include <gtest/gtest.h>

#include "backends/cpu/cpu_backend.h"
#include "backends/cuda/cuda_backend.h"
#include "core/plan/plan.h"
#include "tests/backends/cpu/rank_threads.h"

namespace trainyard::testing {
namespace {

// "A step of training after an evaluation did not train": where a program lay another one lies, and
// the backend took it for the old one, or replayed its graph.
TEST(CudaTraining, ProgramsAtOneAddressAreToldApart) {
  const Job job = small_job({"run.cuda_graphs=true"});
  const ProgramSet training = plan(job), evaluation = plan_evaluation(job);
  RanksHow how;
  how.steps = 5;
  how.before_step = [&](std::int32_t, int step, Program& program) {
    program = *(step == 2 ? evaluation : training).by_stage[0];
  };
  const RanksRun processor = run_ranks(job, make_cpu_backend, how);
  ASSERT_EQ(processor.first_problem(), "");
  const RanksRun gpu = run_ranks(job, make_cuda_backend, how);
  ASSERT_EQ(gpu.first_problem(), "");
  for (std::size_t step = 0; step < 5; ++step)
    EXPECT_NEAR(gpu.losses[step] / processor.losses[step], 1, kRoundingBound) << "step " << step;
}

}  // namespace
}  // namespace trainyard::testing
