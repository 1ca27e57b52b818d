#include "core/plan/attention.h"

#include <cmath>

namespace trainyard {

using enum KernelKind;

namespace {

constexpr double kRotaryBase = 10000;  // Su et al., arXiv 2104.09864 section 3.3

}  // namespace

KernelSpec AttentionEmitter::rotary(KernelKind kind) const {
  KernelSpec spec =
      streaming(kind, {d_.tokens, d_.query + d_.kv}, {element(), element()}, d_.dtype);
  spec.shape = {d_.tokens, d_.heads, d_.kv_heads, d_.model.head_dim, d_.sequence / d_.context};
  spec.parameter = kRotaryBase;
  return spec;
}

KernelSpec AttentionEmitter::key_columns(bool back) const {
  KernelSpec spec =
      streaming(copy_columns, {d_.tokens, 2 * d_.kv}, {element(), element()}, d_.dtype);
  spec.shape[2] = d_.query;
  spec.flag = back ? 1 : 0;
  return spec;
}

std::uint32_t AttentionEmitter::gathered_keys(std::uint32_t qkv) {
  const std::uint32_t own =
      e_.local({"own_kv", d_.tokens, 2 * d_.kv, d_.dtype, MemoryClass::communication});
  e_.kernel(key_columns(false), {reads(qkv), writes(own)});
  const std::uint32_t all = e_.local(
      {"context_kv", d_.context * d_.tokens, 2 * d_.kv, d_.dtype, MemoryClass::communication});
  e_.collective({Op::all_gather, Group::context, Stream::tensor}, e_.size(all),
                {reads(own), writes(all)});
  return all;
}

void AttentionEmitter::scatter_key_gradients(std::uint32_t kv_grad, std::uint32_t qkv_grad) {
  const std::uint32_t own =
      e_.local({"own_kv_grad", d_.tokens, 2 * d_.kv, d_.dtype, MemoryClass::communication});
  e_.collective({Op::reduce_scatter, Group::context, Stream::tensor}, e_.size(kv_grad),
                {reads(kv_grad), writes(own)});
  e_.kernel(key_columns(true), {reads(own), updates(qkv_grad)});
}

std::uint32_t AttentionEmitter::square(const char* name, DType dtype, MemoryClass memory) {
  return e_.local({name, d_.micro_batch * d_.heads * d_.sequence, d_.sequence, dtype, memory});
}

KernelSpec AttentionEmitter::over_scores(KernelKind kind, double read, double written) const {
  return streaming(kind, {d_.micro_batch * d_.heads * d_.sequence, d_.sequence}, {read, written},
                   d_.dtype);
}

KernelSpec AttentionEmitter::softmax(KernelKind kind, double read, double written) const {
  KernelSpec spec = over_scores(kind, read, written);
  spec.shape[2] = d_.model.window;
  spec.parameter = 1 / std::sqrt(static_cast<double>(d_.model.head_dim));
  return spec;
}

KernelSpec AttentionEmitter::product(KernelKind kind) const {
  const std::int64_t batch = d_.micro_batch * d_.heads, s = d_.sequence, dim = d_.model.head_dim;
  const bool scores = kind == attention_scores || kind == attention_scores_grad;
  return scores ? batched_gemm(kind, batch, {s, s, dim}, d_.dtype)
                : batched_gemm(kind, batch, {s, dim, s}, d_.dtype);
}

AttentionSaved AttentionEmitter::unfused_forward(std::int64_t layer, std::uint32_t qkv,
                                                 std::uint32_t out) {
  AttentionSaved saved{.qkv = qkv, .out = out};
  const std::uint32_t scores = square("scores", d_.dtype, MemoryClass::workspace);
  e_.kernel(product(attention_scores), {reads(qkv), writes(scores)});
  saved.probabilities = square("probabilities", d_.dtype, MemoryClass::activations);
  e_.kernel(softmax(softmax_forward, element(), element()),
            {reads(scores), writes(saved.probabilities)});
  saved.dropped = saved.probabilities;
  if (d_.model.dropout > 0) {
    saved.mask = square("attention_mask", DType::uint8, MemoryClass::activations);
    saved.dropped = square("dropped", d_.dtype, MemoryClass::activations);
    KernelSpec dropout = over_scores(dropout_forward, element(), element() + 1);
    dropout.shape[2] = d_.heads;
    set_dropout(dropout, this->dropout(layer));
    e_.kernel(dropout, {reads(saved.probabilities), writes(saved.dropped), writes(saved.mask)});
  }
  e_.kernel(product(attention_context), {reads(qkv), reads(saved.dropped), writes(out)});
  return saved;
}

void AttentionEmitter::unfused_backward(std::int64_t layer, const AttentionSaved& saved,
                                        std::uint32_t out_grad, std::uint32_t qkv_grad) {
  std::uint32_t grad = square("dropped_grad", d_.dtype, MemoryClass::workspace);
  e_.kernel(product(attention_context_grad), {reads(saved.qkv), reads(saved.dropped),
                                              reads(out_grad), writes(grad), writes(qkv_grad)});
  if (d_.model.dropout > 0) {
    KernelSpec dropout = over_scores(dropout_backward, element() + 1, element());
    dropout.shape[2] = d_.heads;
    set_dropout(dropout, this->dropout(layer));
    e_.kernel(dropout, {reads(saved.mask), updates(grad)});
  }
  e_.kernel(softmax(softmax_backward, 2 * element(), element()),
            {reads(saved.probabilities), updates(grad)});
  e_.kernel(product(attention_scores_grad), {reads(saved.qkv), reads(grad), updates(qkv_grad)});
}

AttentionSaved AttentionEmitter::forward(std::int64_t layer, std::uint32_t qkv, std::uint32_t out) {
  if (d_.model.position == Position::rope) e_.kernel(rotary(rope_forward), {updates(qkv)});
  if (d_.model.attention == AttentionImpl::unfused) return unfused_forward(layer, qkv, out);
  const std::uint32_t statistics =
      e_.local({"attention_lse", d_.micro_batch * d_.heads, d_.sequence / d_.context, DType::fp32,
                MemoryClass::activations});
  const KernelSpec spec = attention(true, d_.attention(), d_.dtype, this->dropout(layer));
  if (d_.context == 1) {
    e_.kernel(spec, {reads(qkv), writes(out), writes(statistics)});
  } else {
    const std::uint32_t kv = gathered_keys(qkv);
    e_.kernel(spec, {reads(qkv), reads(kv), writes(out), writes(statistics)});
  }
  return {.qkv = qkv, .out = out, .statistics = statistics};
}

void AttentionEmitter::fused_backward(std::int64_t layer, const AttentionSaved& saved,
                                      std::uint32_t out_grad, std::uint32_t qkv_grad) {
  const KernelSpec spec = attention(false, d_.attention(), d_.dtype, dropout(layer));
  if (d_.context == 1) {
    e_.kernel(spec, {reads(saved.qkv), reads(saved.out), reads(saved.statistics), reads(out_grad),
                     writes(qkv_grad)});
    return;
  }
  const std::uint32_t kv = gathered_keys(saved.qkv);
  const std::uint32_t kv_grad = e_.local(
      {"context_kv_grad", d_.context * d_.tokens, 2 * d_.kv, d_.dtype, MemoryClass::communication});
  e_.kernel(spec, {reads(saved.qkv), reads(kv), reads(saved.out), reads(saved.statistics),
                   reads(out_grad), writes(qkv_grad), writes(kv_grad)});
  scatter_key_gradients(kv_grad, qkv_grad);
}

void AttentionEmitter::backward(std::int64_t layer, const AttentionSaved& saved,
                                std::uint32_t out_grad, std::uint32_t qkv_grad) {
  if (d_.model.attention == AttentionImpl::unfused) {
    AttentionSaved again = saved;
    if (d_.recompute == Recompute::selective) {
      const std::uint32_t out =
          e_.local({"recomputed_context", d_.tokens, d_.query, d_.dtype, MemoryClass::workspace});
      again = unfused_forward(layer, saved.qkv, out);
    }
    unfused_backward(layer, again, out_grad, qkv_grad);
  } else {
    fused_backward(layer, saved, out_grad, qkv_grad);
  }
  if (d_.model.position == Position::rope) e_.kernel(rotary(rope_backward), {updates(qkv_grad)});
}

}  // namespace trainyard
