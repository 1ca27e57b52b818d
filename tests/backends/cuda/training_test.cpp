#include <gtest/gtest.h>

#include "backends/cuda/cuda_backend.h"
#include "tests/backends/cpu/rank_threads.h"

namespace trainyard::testing {
namespace {

RanksRun train(const std::vector<std::string>& settings) {
  RanksRun run = run_ranks(small_job(settings), make_cuda_backend);
  EXPECT_EQ(run.first_problem(), "");
  return run;
}

TEST(ThreadCudaTraining, ManyRanksTrainAsOneDoes) {
  const RanksRun one = train({});
  for (const std::vector<std::string>& layout : std::vector<std::vector<std::string>>{
           {"parallel.tensor=2", "parallel.sequence=true"},
           {"parallel.pipeline=2"},
           {"parallel.data=2", "parallel.zero=2"},
           {"parallel.tensor=2", "parallel.pipeline=2", "parallel.virtual_stages=2",
            "schedule.pipeline=interleaved-1f1b",
            "schedule.overlap=[\"pipeline\",\"data\",\"data_loading\"]"}}) {
    SCOPED_TRACE(layout[0]);
    expect_alike(train(layout), one);
  }
}

TEST(ThreadCudaTraining, GraphsGiveTheSameBits) {
  for (const std::vector<std::string>& layout :
       std::vector<std::vector<std::string>>{{}, {"parallel.tensor=2", "parallel.pipeline=2"}}) {
    std::vector<std::string> graphs = layout;
    graphs.emplace_back("run.cuda_graphs=true");
    const RanksRun plain = train(layout), replayed = train(graphs);
    EXPECT_EQ(plain.losses, replayed.losses);
    EXPECT_EQ(plain.norms, replayed.norms);
  }
}

TEST(ThreadCudaTraining, ATracedStepTellsWhenEachInstructionRan) {
  RanksHow how;
  how.steps = 2;
  how.traced = true;
  const RanksRun run = run_ranks(small_job({"parallel.pipeline=2"}), make_cuda_backend, how);
  ASSERT_EQ(run.first_problem(), "");
  for (const auto& trace : run.traces) {
    ASSERT_GT(trace.size(), 50U);
    for (std::size_t i = 0; i < trace.size(); ++i) {
      EXPECT_LE(trace[i].start, trace[i].end);
      EXPECT_TRUE(i == 0 || trace[i - 1].instr < trace[i].instr);
    }
  }
}

}  // namespace
}  // namespace trainyard::testing
