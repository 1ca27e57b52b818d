#pragma once
#include <cstdint>
#include <span>

#include "core/program/context_tokens.h"
#include "core/program/kernel.h"

namespace trainyard {

// An operand in memory: element (i, j) is data[i * row_stride + j].
struct Matrix {
  void* data = nullptr;
  std::int64_t rows = 0, columns = 0;
  std::int64_t row_stride = 0;  // elements
  DType dtype = DType::fp32;
};

// A parameter tensor's part of a flat buffer of parameters, gradients or moments.
struct FlatTensor {
  std::int64_t first = 0, elements = 0;  // within the operand; 0 elements: none of it is here
  // Copies count once in norms: a replicated tensor on tensor rank 0 only; a tied table in the norm
  // of all gradients on the first stage only.
  bool in_gradient_norm = true, in_own_norm = true;
  // Takes part in weight decay and in LAMB's trust ratio; biases and norms do not.
  bool decays = true;
};

// What a kernel has to know beside its operands. The defaults describe one rank.
struct KernelContext {
  // Dropout draws, with KernelSpec::site and the element's logical place.
  std::uint64_t seed = 0;
  std::int64_t step = 0;

  // The micro-batch. Rows of activations are its tokens, row = sequence number * sequence + place;
  // of context ranks each has its part of every sequence, in the order of ContextTokens.
  std::int64_t tokens = 0;         // rows of the whole micro-batch, as far as they are this rank's
  std::int64_t sequence = 0;       // tokens of a sequence
  std::int64_t first_ids_row = 0;  // row of the operand "ids" that is its first sequence
  std::int64_t first_sample = 0;   // number of its first sequence among all of the global batch

  // This rank's part of a layer. Heads, table rows and logits are split into equal blocks in rank
  // order. With fewer than `tokens` rows an activation is a sequence shard, cut into `parts` row
  // blocks each of which the tensor ranks share: see token_row().
  std::int64_t tensor_rank = 0, tensor_size = 1;
  std::int64_t parts = 1;
  std::int64_t vocab =
      0;  // logical: rows of the table and columns of the logits beyond are padding

  std::int64_t context_rank = 0, context_size = 1;
  ContextTokens context_tokens() const { return {sequence, context_size}; }

  double norm_epsilon = 1e-5;  // added to the variance, or the mean square

  // Gradients carry loss_weight: loss scale / valid tokens of the global batch. Buffers of
  // gradients stay multiplied by the loss scale; gradient_scale = 1 / loss scale is what the
  // optimizers multiply by, and what clipping divides the norm's bound by.
  double loss_weight = 1;
  double gradient_scale = 1;

  // Optimizer.
  std::int64_t update = 1;   // updates made, with this one: the exponent of the bias correction
  bool skip_update = false;  // gradients overflowed: optimizer kernels change nothing
  double learning_rate = 0, beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8, weight_decay = 0;
  // Tensors of the flat operand in the order of the bucket; empty: one tensor with all elements.
  std::span<const FlatTensor> tensors;
};

}  // namespace trainyard
