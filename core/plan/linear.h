#pragma once
#include <span>
#include <vector>

#include "core/plan/dims.h"
#include "core/plan/emitter.h"

namespace trainyard {

// A weight [in, out] on this rank, with its gradient. Biases are kNone where another kernel adds
// them.
struct Linear {
  std::uint32_t weight = kNone, grad = kNone, bias = kNone, bias_grad = kNone;
  std::int64_t in = 0, out = 0;
  bool transposed = false;  // stored [out, in], as an embedding table is
  std::uint8_t flags() const { return transposed ? kGemmTransposed : 0; }
};

// A product's operand: an input of a row-split weight, an output gradient of a column-split one.
struct LinearUse {
  std::uint32_t buffer;
  Linear linear;
};

// A weight gradient that is still to be computed.
struct WeightGrad {
  std::uint32_t input;
  bool gather_input;  // a rank holds only its rows of it
  std::uint32_t output_grad;
  Linear linear;
};

// Products with weights split over the tensor ranks and the collectives around them
// (Megatron-LM, arXiv 1909.08053; sequence parallelism, arXiv 2205.05198 section 4.2). With
// dims.parts > 1, products and collectives are cut into row blocks that run beside each other.
class LinearEmitter {
 public:
  LinearEmitter(Emitter& emitter, const Dims& dims) : e_(emitter), d_(dims) {}

  // Column-split weights on one input [rows, hidden]: an output [tokens, out] each.
  std::vector<std::uint32_t> column_forward(std::uint32_t input, std::span<const Linear> linears,
                                            std::span<const char* const> names);
  // Row-split weights whose products are summed and reduced: [rows, hidden].
  std::uint32_t row_forward(std::span<const LinearUse> inputs);
  // Gradients of the inputs of row-split weights from the gradient of their sum.
  std::vector<std::uint32_t> row_backward(std::uint32_t output_grad,
                                          std::span<const LinearUse> inputs);
  // Gradient of the common input of column-split weights.
  std::uint32_t column_backward(std::uint32_t input, std::span<const LinearUse> output_grads);

  // All rows of a buffer of which each tensor rank holds a share (sequence parallelism).
  std::uint32_t gather(std::uint32_t shard, const char* name);
  // Sum over the tensor ranks of partial results; every rank keeps its rows, or all of them.
  std::uint32_t reduce(std::uint32_t partial, const char* name);
  bool has_put_off() const { return !put_off_.empty(); }
  // Weight gradients put off by split backward passes; computes and forgets them.
  void weight_gradients();

 private:
  void weight_gradient(const WeightGrad& grad);  // now, or put off
  void compute(const WeightGrad& grad);
  void gather_part(std::uint32_t shard, std::uint32_t full, std::int32_t part);
  void reduce_part(std::uint32_t partial, std::uint32_t reduced, std::int32_t part);
  std::uint32_t reduction_target(std::uint32_t partial, const char* name);

  Emitter& e_;
  const Dims& d_;
  std::vector<WeightGrad> put_off_;
};

}  // namespace trainyard
