#pragma once
#include "backends/cuda/kernels/launch.h"

namespace trainyard::cuda_kernels {

// The body of each kernel kind, listed in kernels.cpp; operands and formulas are in
// core/program/kernel.cpp.
void gemm_forward(const CudaLaunch& launch);
void gemm_input_grad(const CudaLaunch& launch);
void gemm_weight_grad(const CudaLaunch& launch);
void attention_forward(const CudaLaunch& launch);
void attention_backward(const CudaLaunch& launch);
void attention_scores(const CudaLaunch& launch);
void attention_scores_grad(const CudaLaunch& launch);
void attention_context(const CudaLaunch& launch);
void attention_context_grad(const CudaLaunch& launch);
void softmax_forward(const CudaLaunch& launch);
void softmax_backward(const CudaLaunch& launch);
void dropout_forward(const CudaLaunch& launch);
void dropout_backward(const CudaLaunch& launch);
void rope_forward(const CudaLaunch& launch);
void rope_backward(const CudaLaunch& launch);
void norm_forward(const CudaLaunch& launch);
void norm_backward(const CudaLaunch& launch);
void activation_forward(const CudaLaunch& launch);
void activation_backward(const CudaLaunch& launch);
void residual_forward(const CudaLaunch& launch);
void residual_backward(const CudaLaunch& launch);
void add(const CudaLaunch& launch);
void copy_columns(const CudaLaunch& launch);
void embedding_forward(const CudaLaunch& launch);
void embedding_backward(const CudaLaunch& launch);
void loss_max(const CudaLaunch& launch);
void loss_sum(const CudaLaunch& launch);
void loss_forward(const CudaLaunch& launch);
void loss_backward(const CudaLaunch& launch);
void adam(const CudaLaunch& launch);
void adamw(const CudaLaunch& launch);
void lamb_update(const CudaLaunch& launch);
void lamb_apply(const CudaLaunch& launch);
void grad_norm(const CudaLaunch& launch);
void grad_clip(const CudaLaunch& launch);
void zero(const CudaLaunch& launch);

// to[0, j] += sum over rows of from[., j]; needs column_sums_bytes() of scratch memory.
void add_column_sums(const CudaLaunch& launch, const Matrix& from, float* to);

}  // namespace trainyard::cuda_kernels
