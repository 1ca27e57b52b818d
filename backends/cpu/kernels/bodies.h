#pragma once
#include "backends/cpu/kernels/launch.h"

namespace trainyard::kernels {

// The body of each kernel kind, listed in kernels.cpp; operands and formulas are in
// core/program/kernel.cpp.
void gemm_forward(const Launch& launch);
void gemm_input_grad(const Launch& launch);
void gemm_weight_grad(const Launch& launch);
void attention_forward(const Launch& launch);
void attention_backward(const Launch& launch);
void attention_scores(const Launch& launch);
void attention_scores_grad(const Launch& launch);
void attention_context(const Launch& launch);
void attention_context_grad(const Launch& launch);
void softmax_forward(const Launch& launch);
void softmax_backward(const Launch& launch);
void dropout_forward(const Launch& launch);
void dropout_backward(const Launch& launch);
void rope_forward(const Launch& launch);
void rope_backward(const Launch& launch);
void norm_forward(const Launch& launch);
void norm_backward(const Launch& launch);
void activation_forward(const Launch& launch);
void activation_backward(const Launch& launch);
void residual_forward(const Launch& launch);
void residual_backward(const Launch& launch);
void add(const Launch& launch);
void copy_columns(const Launch& launch);
void embedding_forward(const Launch& launch);
void embedding_backward(const Launch& launch);
void loss_max(const Launch& launch);
void loss_sum(const Launch& launch);
void loss_forward(const Launch& launch);
void loss_backward(const Launch& launch);
void adam(const Launch& launch);
void adamw(const Launch& launch);
void lamb_update(const Launch& launch);
void lamb_apply(const Launch& launch);
void grad_norm(const Launch& launch);
void grad_clip(const Launch& launch);
void zero(const Launch& launch);

}  // namespace trainyard::kernels
