#pragma once
#include "backends/cuda/kernels/launch.h"

namespace trainyard::cuda_kernels {

// Fused attention on tensor cores, for operands that suits_tensor_cores() (attention.cuh); the
// backward pass once attention_deltas has run.
void attention_forward_mma(const CudaLaunch& launch);
void attention_backward_mma(const CudaLaunch& launch);

}  // namespace trainyard::cuda_kernels
