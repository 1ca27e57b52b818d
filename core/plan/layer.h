#pragma once
#include "core/plan/attention.h"
#include "core/plan/linear.h"
#include "core/plan/parameters.h"

namespace trainyard {

// What a pass leaves for the next one, and what it needs itself.
inline constexpr MemoryClass kKept = MemoryClass::activations;
inline constexpr MemoryClass kWork = MemoryClass::workspace;

// Where a layer's parameters and gradients are during a pass, by Weight.
struct LayerWeights {
  std::int64_t layer = 0;  // of the model
  std::array<std::uint32_t, kLayerWeights> value{}, grad{};
  std::uint32_t of(Weight w) const { return value[static_cast<int>(w)]; }
  std::uint32_t grad_of(Weight w) const { return grad[static_cast<int>(w)]; }
};

struct Normed {
  std::uint32_t input = kNone, output = kNone, statistics = kNone;
};

// What a layer's forward pass leaves for its backward pass.
struct LayerSaved {
  Normed norm1, norm2;
  AttentionSaved attention;
  std::uint32_t attention_mask = kNone;  // residual dropout after attention
  std::uint32_t fc1_out = kNone, act_out = kNone;
  std::uint32_t joint_in = kNone;     // fused block: context beside activation
  std::uint32_t output_mask = kNone;  // residual dropout at the end
  std::uint32_t output = kNone;       // the residual stream after the layer
};

// Kernels and tensor-parallel collectives of one transformer layer, serial (norm, attention, norm,
// MLP) or parallel (one norm feeding both, arXiv 2402.15627 section 3.1). The residual stream is
// [shard_tokens, hidden].
class LayerEmitter {
 public:
  LayerEmitter(Emitter& emitter, const Dims& dims, LinearEmitter& linear)
      : e_(emitter), d_(dims), linear_(linear), attention_(emitter, dims) {}

  LayerSaved forward(const LayerWeights& weights, std::uint32_t input);
  // Returns the gradient of the layer's input.
  std::uint32_t backward(const LayerWeights& weights, const LayerSaved& saved,
                         std::uint32_t output_grad);

  Normed norm_forward(std::uint32_t input, std::uint32_t gamma);
  // `residual_grad`, unless kNone, is added to the result.
  std::uint32_t norm_backward(const Normed& normed, std::uint32_t gamma, std::uint32_t gamma_grad,
                              std::uint32_t grad, std::uint32_t residual_grad);

 private:
  struct Added {
    std::uint32_t output, mask;
  };

  LayerSaved serial_forward(const LayerWeights& w, std::uint32_t input);
  LayerSaved parallel_forward(const LayerWeights& w, std::uint32_t input);
  std::uint32_t serial_backward(const LayerWeights& w, const LayerSaved& saved,
                                std::uint32_t output_grad);
  std::uint32_t parallel_backward(const LayerWeights& w, const LayerSaved& saved,
                                  std::uint32_t output_grad);
  struct Branch {
    std::uint32_t bias, bias_grad;
    Dropout dropout;
  };
  Branch branch(const LayerWeights& w, Weight bias, LayerDropout which) const;
  Added residual_forward(std::uint32_t value, const Branch& branch, std::uint32_t residual);
  std::uint32_t residual_backward(std::uint32_t grad, std::uint32_t mask, const Branch& branch);
  void activation_forward(const LayerWeights& w, std::uint32_t in, std::uint32_t out);
  void activation_backward(const LayerWeights& w, std::uint32_t in, std::uint32_t out_grad,
                           std::uint32_t in_grad);
  Linear linear_of(const LayerWeights& w, Weight weight) const;
  std::uint32_t rows(const char* name, std::int64_t columns, MemoryClass memory);

  Emitter& e_;
  const Dims& d_;
  LinearEmitter& linear_;
  AttentionEmitter attention_;
};

}  // namespace trainyard
