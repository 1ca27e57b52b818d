#pragma once
#include "core/config/job.h"
#include "core/program/program.h"

namespace trainyard {

// Dense matrix FLOP/s the GPU promises for the job's precision; fp32 counts as TF32 where the GPU
// has it.
FlopRate peak_rate(const GpuProfile& gpu, Precision precision);

// The figures people compare training runs by.
struct Throughput {
  double tokens_per_s = 0;
  double model_flops_per_token = 0;
  double mfu = 0;            // model FLOPs (no recompute) over what all GPUs could do in the time
  double hfu = 0;            // the same with the FLOPs that were executed
  double training_days = 0;  // for Training::total_tokens; 0 when that is not given
};

// `executed_flops`: of one iteration, over all ranks, recompute included.
Throughput throughput(const Job& job, Time iteration, double executed_flops);

// Floating-point operations of one pass of a program.
struct ExecutedFlops {
  double all = 0;
  double recompute = 0;  // forward kernels that run again in backward passes
};
ExecutedFlops executed_flops(const Program& program);

// Over all ranks of the job.
ExecutedFlops executed_flops(const Job& job, const ProgramSet& programs);

// Parts of the time that kernels take on the critical path of a step. They sum to it; mask_padding
// is negative where a causal kernel skips work that the model's FLOP count charges.
struct ComputeParts {
  double model = 0;         // the model's FLOPs at peak rate, evenly spread over all GPUs
  double recompute = 0;     // recomputed FLOPs at peak rate, likewise
  double mask_padding = 0;  // executed for padding minus skipped by masks, at peak rate
  double uneven = 0;        // FLOPs of the bounding stage beyond the mean, at peak rate
  double inefficiency = 0;  // the rest: kernels slower than peak rate
};

// `compute`: time of kernels on the critical path, which mostly runs through `bounding_stage`.
ComputeParts split_compute(const Job& job, const ProgramSet& programs, int bounding_stage,
                           Time compute);

}  // namespace trainyard
