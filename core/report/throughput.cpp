#include "core/report/throughput.h"

#include "core/error.h"

namespace trainyard {
namespace {

double tokens_per_iteration(const Job& job) {
  return static_cast<double>(job.batch.global_sequences * job.batch.sequence_length);
}

double model_flops(const Job& job) {
  return tokens_per_iteration(job) *
         model_flops_per_token(job.model, job.batch.sequence_length, job.training.flops);
}

// Whether the kernel belongs to a forward pass wherever it runs.
bool is_forward(KernelKind kind) {
  switch (kind) {
    case KernelKind::gemm_forward:
    case KernelKind::attention_forward:
    case KernelKind::attention_scores:
    case KernelKind::attention_context:
    case KernelKind::softmax_forward:
    case KernelKind::dropout_forward:
    case KernelKind::rope_forward:
    case KernelKind::norm_forward:
    case KernelKind::activation_forward:
    case KernelKind::residual_forward:
    case KernelKind::embedding_forward:
      return true;
    default:
      return false;
  }
}

}  // namespace

FlopRate peak_rate(const GpuProfile& gpu, Precision precision) {
  switch (precision) {
    case Precision::bf16:
      return gpu.peak_bf16;
    case Precision::fp16:
      return gpu.peak_fp16;
    case Precision::fp32:
      break;
  }
  return gpu.peak_tf32.value > 0 ? gpu.peak_tf32 : gpu.peak_fp32;
}

Throughput throughput(const Job& job, Time iteration, double executed_flops) {
  check(iteration > Time{}, "an iteration of {} ns", iteration.value);
  const double time = to_seconds(iteration);
  const double capacity =
      time * job.gpus() * peak_rate(job.cluster.gpu, job.training.precision).value;
  Throughput out;
  out.tokens_per_s = tokens_per_iteration(job) / time;
  out.model_flops_per_token =
      model_flops_per_token(job.model, job.batch.sequence_length, job.training.flops);
  out.mfu = model_flops(job) / capacity;
  out.hfu = executed_flops / capacity;
  out.training_days = job.training.total_tokens / out.tokens_per_s / 86400;
  return out;
}

ExecutedFlops executed_flops(const Program& program) {
  ExecutedFlops out;
  for (const Instr& instr : program.code) {
    if (instr.op != Op::kernel) continue;
    const KernelSpec& kernel = program.kernels[instr.what];
    out.all += kernel.flops;
    const bool backward =
        instr.pass != kNone && program.passes[instr.pass].kind == PassKind::backward;
    if (backward && is_forward(kernel.kind)) out.recompute += kernel.flops;
  }
  return out;
}

ExecutedFlops executed_flops(const Job& job, const ProgramSet& programs) {
  ExecutedFlops out;
  const std::int32_t ranks_per_stage = job.gpus() / job.stages();
  for (const auto& program : programs.by_stage) {
    const ExecutedFlops stage = executed_flops(*program);
    out.all += stage.all * ranks_per_stage;
    out.recompute += stage.recompute * ranks_per_stage;
  }
  return out;
}

ComputeParts split_compute(const Job& job, const ProgramSet& programs, int bounding_stage,
                           Time compute) {
  const double peak = peak_rate(job.cluster.gpu, job.training.precision).value;
  const double all_gpus = peak * job.gpus();
  const ExecutedFlops executed = executed_flops(job, programs);
  const double bounding = executed_flops(*programs.by_stage[bounding_stage]).all;
  ComputeParts out;
  out.model = model_flops(job) / all_gpus;
  out.recompute = executed.recompute / all_gpus;
  out.mask_padding = executed.all / all_gpus - out.model - out.recompute;
  out.uneven = bounding / peak - executed.all / all_gpus;
  out.inefficiency = to_seconds(compute) - bounding / peak;
  return out;
}

}  // namespace trainyard
