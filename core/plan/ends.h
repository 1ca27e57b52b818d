#pragma once
#include "core/plan/layer.h"

namespace trainyard {

// The parameters outside the layers that a chunk may hold; kNone where it does not.
struct EndWeights {
  std::uint32_t table = kNone, table_grad = kNone;          // [vocab / tensor, hidden]
  std::uint32_t positions = kNone, positions_grad = kNone;  // [sequence, hidden]
  std::uint32_t norm = kNone, norm_grad = kNone;            // final norm
  std::uint32_t head = kNone, head_grad = kNone;            // output projection
};

struct EmbeddingSaved {
  std::uint32_t mask = kNone, output = kNone;
};

struct HeadSaved {
  Normed norm;
  std::uint32_t logits = kNone;                 // [tokens, vocab / tensor]
  std::uint32_t maximum = kNone, sums = kNone;  // over the whole vocabulary
};

// What lies before the first layer and behind the last: vocabulary-parallel embedding, final norm,
// output projection and cross-entropy (arXiv 1909.08053 section 3).
class EndsEmitter {
 public:
  EndsEmitter(Emitter& emitter, const Dims& dims, LinearEmitter& linear, LayerEmitter& layer)
      : e_(emitter), d_(dims), linear_(linear), layer_(layer) {}

  EmbeddingSaved embed(const EndWeights& w, std::uint32_t tokens);
  void embed_backward(const EndWeights& w, const EmbeddingSaved& saved, std::uint32_t tokens,
                      std::uint32_t grad);
  HeadSaved loss(const EndWeights& w, std::uint32_t input, std::uint32_t tokens,
                 std::uint32_t loss_sum);
  // Gradient of the loss's input.
  std::uint32_t loss_backward(const EndWeights& w, const HeadSaved& saved, std::uint32_t tokens);

 private:
  KernelSpec over_logits(KernelKind kind, double read, double written) const;
  Linear head(const EndWeights& w) const;

  Emitter& e_;
  const Dims& d_;
  LinearEmitter& linear_;
  LayerEmitter& layer_;
};

}  // namespace trainyard
