#include <gtest/gtest.h>

#include "backends/cuda/cuda_backend.h"
#include "tests/backends/cpu/rank_threads.h"
#include "tests/cuda_on_host/cudnn_run.h"

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
           {"parallel.context=2", "parallel.tensor=2", "parallel.zero=1"},
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

// In bf16 kernels that sum in another order round some activations the other way, a unit (2^-8)
// apart; losses average over many. Chained: two key heads of four, a window, RoPE.
TEST(ThreadCudaTraining, CudnnsAttentionTrainsAsTheOwnDoes) {
  const auto settings = [](const std::string& kernels, const std::string& more) {
    return std::vector<std::string>{"training.precision=bf16",
                                    "model.hidden=32",
                                    "model.heads=4",
                                    "model.kv_heads=2",
                                    "model.window=5",
                                    "model.dropout=0",
                                    "run.attention=" + kernels,
                                    more};
  };
  const int before = cuda_on_host::cudnn_runs();
  const RanksRun own = train(settings("own", "parallel.tensor=2"));
  EXPECT_EQ(cuda_on_host::cudnn_runs(), before);
  const RanksRun cudnn = train(settings("cudnn", "parallel.tensor=2"));
  // Three steps of four sequences through four layers, there and back, on each of two ranks.
  EXPECT_EQ(cuda_on_host::cudnn_runs() - before, 3 * 4 * 4 * 2 * 2);
  for (std::size_t i = 0; i < own.losses.size(); ++i) {
    EXPECT_NEAR(cudnn.losses[i] / own.losses[i], 1, 0x1p-8);
    EXPECT_NEAR(cudnn.norms[i] / own.norms[i], 1, 0x1p-8);
  }
  const RanksRun graphs = train(settings("cudnn", "run.cuda_graphs=true"));
  const RanksRun plain = train(settings("cudnn", "run.cuda_graphs=false"));
  EXPECT_EQ(graphs.losses, plain.losses);
  EXPECT_EQ(graphs.norms, plain.norms);
}

TEST(ThreadCudaTraining, ATypeThatCudnnLacksIsTheOwnKernelsUnlessCudnnIsAskedFor) {
  const RanksRun own = train({"run.attention=own"}), automatic = train({"run.attention=auto"});
  EXPECT_EQ(automatic.losses, own.losses);
  const RanksRun refused = run_ranks(small_job({"run.attention=cudnn"}), make_cuda_backend);
  EXPECT_NE(refused.first_problem().find("is not cuDNN's: it has no engine for fp32; run.attention "
                                         "may be auto or own"),
            std::string::npos)
      << refused.first_problem();
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
