#include "core/plan/attention.h"

#include <cmath>

namespace trainyard {
namespace {

using enum KernelKind;

constexpr double kRotaryBase = 10000;  // Su et al., arXiv 2104.09864 section 3.3

double element(const Dims& d) { return static_cast<double>(d.element()); }

Dropout dropout_of(const Dims& d, std::int64_t layer) {
  return {d.model.dropout, dropout_site(layer, LayerDropout::attention)};
}

KernelSpec rotary(const Dims& d, bool forward) {
  KernelSpec spec = streaming(forward ? rope_forward : rope_backward, d.tokens, d.query + d.kv,
                              element(d), element(d), d.dtype);
  spec.shape = {d.tokens, d.heads, d.kv_heads, d.model.head_dim, d.sequence};
  spec.parameter = kRotaryBase;
  return spec;
}

std::uint32_t square(Emitter& e, const Dims& d, const char* name, DType dtype, MemoryClass memory) {
  return e.local({name, d.micro_batch * d.heads * d.sequence, d.sequence, dtype, memory});
}

KernelSpec over_scores(const Dims& d, KernelKind kind, double read, double written) {
  return streaming(kind, d.micro_batch * d.heads * d.sequence, d.sequence, read, written, d.dtype);
}

KernelSpec softmax(const Dims& d, KernelKind kind, double read, double written) {
  KernelSpec spec = over_scores(d, kind, read, written);
  spec.shape[2] = d.model.window;
  spec.parameter = 1 / std::sqrt(static_cast<double>(d.model.head_dim));
  return spec;
}

KernelSpec product(const Dims& d, KernelKind kind) {
  const std::int64_t batch = d.micro_batch * d.heads, s = d.sequence, dim = d.model.head_dim;
  const bool scores = kind == attention_scores || kind == attention_scores_grad;
  return scores ? batched_gemm(kind, batch, s, s, dim, d.dtype)
                : batched_gemm(kind, batch, s, dim, s, d.dtype);
}

AttentionSaved unfused_forward(Emitter& e, const Dims& d, std::int64_t layer, std::uint32_t qkv,
                               std::uint32_t out) {
  AttentionSaved saved{.qkv = qkv, .out = out};
  const std::uint32_t scores = square(e, d, "scores", d.dtype, MemoryClass::workspace);
  e.kernel(product(d, attention_scores), {reads(qkv), writes(scores)});
  saved.probabilities = square(e, d, "probabilities", d.dtype, MemoryClass::activations);
  e.kernel(softmax(d, softmax_forward, element(d), element(d)),
           {reads(scores), writes(saved.probabilities)});
  saved.dropped = saved.probabilities;
  if (d.model.dropout > 0) {
    saved.mask = square(e, d, "attention_mask", DType::uint8, MemoryClass::activations);
    saved.dropped = square(e, d, "dropped", d.dtype, MemoryClass::activations);
    KernelSpec dropout = over_scores(d, dropout_forward, element(d), element(d) + 1);
    set_dropout(dropout, dropout_of(d, layer));
    e.kernel(dropout, {reads(saved.probabilities), writes(saved.dropped), writes(saved.mask)});
  }
  e.kernel(product(d, attention_context), {reads(qkv), reads(saved.dropped), writes(out)});
  return saved;
}

void unfused_backward(Emitter& e, const Dims& d, std::int64_t layer, const AttentionSaved& saved,
                      std::uint32_t out_grad, std::uint32_t qkv_grad) {
  std::uint32_t grad = square(e, d, "dropped_grad", d.dtype, MemoryClass::workspace);
  e.kernel(product(d, attention_context_grad), {reads(saved.qkv), reads(saved.dropped),
                                                reads(out_grad), writes(grad), writes(qkv_grad)});
  if (d.model.dropout > 0) {
    KernelSpec dropout = over_scores(d, dropout_backward, element(d) + 1, element(d));
    set_dropout(dropout, dropout_of(d, layer));
    e.kernel(dropout, {reads(saved.mask), updates(grad)});
  }
  e.kernel(softmax(d, softmax_backward, 2 * element(d), element(d)),
           {reads(saved.probabilities), updates(grad)});
  e.kernel(product(d, attention_scores_grad), {reads(saved.qkv), reads(grad), updates(qkv_grad)});
}

}  // namespace

AttentionSaved attention_forward(Emitter& e, const Dims& d, std::int64_t layer, std::uint32_t qkv,
                                 std::uint32_t out) {
  if (d.model.position == Position::rope) e.kernel(rotary(d, true), {updates(qkv)});
  if (d.model.attention == AttentionImpl::unfused) return unfused_forward(e, d, layer, qkv, out);
  const std::uint32_t statistics = e.local({"attention_lse", d.micro_batch * d.heads, d.sequence,
                                            DType::fp32, MemoryClass::activations});
  e.kernel(attention(true, d.attention(), d.dtype, dropout_of(d, layer)),
           {reads(qkv), writes(out), writes(statistics)});
  return {.qkv = qkv, .out = out, .statistics = statistics};
}

void attention_backward(Emitter& e, const Dims& d, std::int64_t layer, const AttentionSaved& saved,
                        std::uint32_t out_grad, std::uint32_t qkv_grad) {
  if (d.model.attention == AttentionImpl::unfused) {
    AttentionSaved again = saved;
    if (d.recompute == Recompute::selective) {
      const std::uint32_t out =
          e.local({"recomputed_context", d.tokens, d.query, d.dtype, MemoryClass::workspace});
      again = unfused_forward(e, d, layer, saved.qkv, out);
    }
    unfused_backward(e, d, layer, again, out_grad, qkv_grad);
  } else {
    e.kernel(attention(false, d.attention(), d.dtype, dropout_of(d, layer)),
             {reads(saved.qkv), reads(saved.out), reads(saved.statistics), reads(out_grad),
              writes(qkv_grad)});
  }
  if (d.model.position == Position::rope) e.kernel(rotary(d, false), {updates(qkv_grad)});
}

}  // namespace trainyard
