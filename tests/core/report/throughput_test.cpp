#include "core/report/throughput.h"

#include <gtest/gtest.h>

#include "core/error.h"

namespace trainyard {
namespace {

// GPT-3 175B on 12,288 A100s as MegaScale's table 2 (arXiv 2402.15627) runs Megatron-LM.
Job megatron_175b() {
  Job job;
  job.model.layers = 96;
  job.model.hidden = 12288;
  job.model.heads = job.model.kv_heads = 128;
  job.model.head_dim = 96;
  job.model.ffn = 4 * 12288;
  job.model.vocab = 64000;
  job.batch = {.global_sequences = 6144, .micro_sequences = 1, .sequence_length = 2048};
  job.parallel.tensor = 8;
  job.parallel.pipeline = 8;
  job.parallel.data = 192;
  job.training.total_tokens = 300e9;
  job.cluster.gpu.peak_bf16 = teraflops(312);
  job.cluster.gpu.peak_tf32 = teraflops(156);
  return job;
}

Instr kernel(std::uint32_t what, std::uint32_t pass) {
  Instr instr;
  instr.op = Op::kernel;
  instr.what = what;
  instr.pass = pass;
  return instr;
}

// 4 TFLOP forward, 8 backward of which `recomputed` are the forward kernel again.
ProgramSet two_stages(bool recomputed) {
  Program program;
  for (KernelKind kind :
       {KernelKind::gemm_forward, KernelKind::gemm_input_grad, KernelKind::gemm_weight_grad}) {
    program.kernels.emplace_back().kind = kind;
    program.kernels.back().flops = 4e12;
  }
  program.passes = {{PassKind::forward, 0, 0}, {PassKind::backward, 0, 0}};
  program.code = {kernel(0, 0), kernel(1, 1), kernel(2, 1)};
  if (recomputed) program.code.push_back(kernel(0, 1));
  Program heavier = program;
  heavier.code.push_back(kernel(2, 1));
  ProgramSet set;
  set.by_stage = {std::make_shared<const Program>(program),
                  std::make_shared<const Program>(heavier)};
  return set;
}

Job two_stage_job() {
  Job job = megatron_175b();
  job.parallel.tensor = 1;
  job.parallel.pipeline = 2;
  job.parallel.data = 1;
  return job;
}

TEST(Throughput, GivesThePublishedFiguresOfMegatronOn12288Gpus) {
  // MegaScale table 2, Megatron-LM at 12,288 GPUs: 8.57 s, 1466.8k tokens/s, 2.37 days, 41.2 %.
  const Throughput got = throughput(megatron_175b(), seconds(8.57), 0);
  EXPECT_NEAR(got.tokens_per_s, 1466.8e3, 2e3);
  EXPECT_NEAR(got.training_days, 2.37, 0.005 + 0.0014);  // its rounding and that of 8.57 s
  EXPECT_NEAR(got.mfu, 0.412, 0.002);
}

TEST(Throughput, HfuIsExecutedWorkOverPeak) {
  Job job = two_stage_job();
  // 2 GPUs of 312 TFLOP/s for 0.5 s could do 312 TFLOP.
  EXPECT_DOUBLE_EQ(throughput(job, seconds(0.5), 78e12).hfu, 0.25);
  job.training.precision = Precision::fp32;
  EXPECT_DOUBLE_EQ(throughput(job, seconds(0.5), 78e12).hfu, 0.5);  // TF32: half the peak
}

TEST(Throughput, RefusesAnIterationOfNoTime) {
  EXPECT_THROW(throughput(megatron_175b(), Time{}, 0), InternalError);
}

TEST(ExecutedFlops, CountForwardKernelsInBackwardPassesAsRecompute) {
  const ExecutedFlops without = executed_flops(*two_stages(false).by_stage[0]);
  EXPECT_DOUBLE_EQ(without.all, 12e12);
  EXPECT_DOUBLE_EQ(without.recompute, 0);
  const ExecutedFlops with = executed_flops(*two_stages(true).by_stage[0]);
  EXPECT_DOUBLE_EQ(with.all, 16e12);
  EXPECT_DOUBLE_EQ(with.recompute, 4e12);
}

TEST(ExecutedFlops, CountEveryRankOfEveryStage) {
  Job job = two_stage_job();
  job.parallel.data = 3;
  EXPECT_DOUBLE_EQ(executed_flops(job, two_stages(false)).all, 3 * (12e12 + 16e12));
}

TEST(ComputeParts, SumToTheKernelTime) {
  const Job job = two_stage_job();
  const ComputeParts got = split_compute(job, two_stages(true), 1, seconds(0.25));
  EXPECT_NEAR(got.model + got.recompute + got.mask_padding + got.uneven + got.inefficiency, 0.25,
              1e-12);
  EXPECT_NEAR(got.recompute, 8e12 / 624e12, 1e-12);           // 4 TFLOP on each of two GPUs
  EXPECT_NEAR(got.uneven, (20 - 18) * 1e12 / 312e12, 1e-12);  // 20 against a mean of 18
  EXPECT_NEAR(got.inefficiency, 0.25 - 20e12 / 312e12, 1e-12);
}

}  // namespace
}  // namespace trainyard
