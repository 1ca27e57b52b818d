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

// Core attention of this rank's heads: fused, or as separate products and softmax. Context ranks
// gather each other's keys and values first, again in the backward pass: kept, they would take as
// much memory as without context parallelism.
class AttentionEmitter {
 public:
  AttentionEmitter(Emitter& emitter, const Dims& dims) : e_(emitter), d_(dims) {}

  // `out` is where the context [tokens, query] goes.
  AttentionSaved forward(std::int64_t layer, std::uint32_t qkv, std::uint32_t out);
  // Gradient of qkv, written to `qkv_grad`. Under selective recomputation the unfused kernels run
  // again first (arXiv 2205.05198 section 5).
  void backward(std::int64_t layer, const AttentionSaved& saved, std::uint32_t out_grad,
                std::uint32_t qkv_grad);

 private:
  AttentionSaved unfused_forward(std::int64_t layer, std::uint32_t qkv, std::uint32_t out);
  void unfused_backward(std::int64_t layer, const AttentionSaved& saved, std::uint32_t out_grad,
                        std::uint32_t qkv_grad);
  void fused_backward(std::int64_t layer, const AttentionSaved& saved, std::uint32_t out_grad,
                      std::uint32_t qkv_grad);
  std::uint32_t gathered_keys(std::uint32_t qkv);
  void scatter_key_gradients(std::uint32_t kv_grad, std::uint32_t qkv_grad);
  KernelSpec key_columns(bool back) const;
  std::uint32_t square(const char* name, DType dtype, MemoryClass memory);
  KernelSpec rotary(KernelKind kind) const;
  KernelSpec over_scores(KernelKind kind, double read, double written) const;
  KernelSpec softmax(KernelKind kind, double read, double written) const;
  KernelSpec product(KernelKind kind) const;
  Dropout dropout(std::int64_t layer) const {
    return {d_.model.dropout, dropout_site(layer, LayerDropout::attention)};
  }
  double element() const { return static_cast<double>(d_.element()); }

  Emitter& e_;
  const Dims& d_;
};

}  // namespace trainyard
