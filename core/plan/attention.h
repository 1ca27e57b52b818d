#pragma once
#include "core/plan/dims.h"
#include "core/plan/emitter.h"

namespace trainyard {

// What attention keeps for its backward pass.
struct AttentionSaved {
  std::uint32_t qkv = kNone, out = kNone;
  std::uint32_t statistics = kNone;                                    // fused
  std::uint32_t probabilities = kNone, mask = kNone, dropped = kNone;  // unfused
};

// Core attention of this rank's heads: fused, or as separate products and softmax. `out` is where
// the context [tokens, query] goes.
AttentionSaved attention_forward(Emitter& e, const Dims& d, std::int64_t layer, std::uint32_t qkv,
                                 std::uint32_t out);

// Gradient of qkv, written to `qkv_grad`. Under selective recomputation the unfused kernels run
// again first (arXiv 2205.05198 section 5).
void attention_backward(Emitter& e, const Dims& d, std::int64_t layer, const AttentionSaved& saved,
                        std::uint32_t out_grad, std::uint32_t qkv_grad);

}  // namespace trainyard
