#include "core/plan/ends.h"

namespace trainyard {

EmbeddingSaved EndsEmitter::embed(const EndWeights& w, std::uint32_t tokens) {
  const double element = static_cast<double>(d_.element());
  const std::uint32_t partial =
      e_.local({"embedded", d_.tokens, d_.hidden(), d_.dtype, MemoryClass::activations});
  e_.kernel(streaming(KernelKind::embedding_forward, {d_.tokens, d_.hidden()}, {element, element},
                      d_.dtype),
            {reads(tokens), reads(w.table), writes(partial)});
  EmbeddingSaved saved{.output = linear_.reduce(partial, "embedding")};
  if (w.positions != kNone) {
    KernelSpec add = streaming(KernelKind::add, {d_.shard_tokens, d_.hidden()},
                               {2 * element, element}, d_.dtype);
    add.flag = 1;
    e_.kernel(add, {updates(saved.output), reads(w.positions)});
  }
  if (d_.model.dropout > 0) {
    saved.mask = e_.local(
        {"embedding_mask", d_.shard_tokens, d_.hidden(), DType::uint8, MemoryClass::activations});
    KernelSpec dropout = streaming(KernelKind::dropout_forward, {d_.shard_tokens, d_.hidden()},
                                   {element, element + 1}, d_.dtype);
    set_dropout(dropout, {d_.model.dropout, kEmbeddingDropout});
    e_.kernel(dropout, {updates(saved.output), writes(saved.mask)});
  }
  return saved;
}

void EndsEmitter::embed_backward(const EndWeights& w, const EmbeddingSaved& saved,
                                 std::uint32_t tokens, std::uint32_t grad) {
  const double element = static_cast<double>(d_.element());
  if (saved.mask != kNone) {
    KernelSpec dropout = streaming(KernelKind::dropout_backward, {d_.shard_tokens, d_.hidden()},
                                   {element + 1, element}, d_.dtype);
    set_dropout(dropout, {d_.model.dropout, kEmbeddingDropout});
    e_.kernel(dropout, {reads(saved.mask), updates(grad)});
  }
  const auto scatter = [&](std::int64_t rows, bool positions) {
    KernelSpec spec =
        streaming(KernelKind::embedding_backward, {rows, d_.hidden()}, {element + 4, 4}, d_.dtype);
    spec.flag = positions ? 1 : 0;
    return spec;
  };
  if (w.positions != kNone)
    e_.kernel(scatter(d_.shard_tokens, true), {reads(grad), updates(w.positions_grad)});
  const std::uint32_t full = linear_.gather(grad, "gathered_grad");
  e_.kernel(scatter(d_.tokens, false), {reads(tokens), reads(full), updates(w.table_grad)});
}

KernelSpec EndsEmitter::over_logits(KernelKind kind, double read, double written) const {
  return streaming(kind, {d_.tokens, d_.local_vocab}, {read, written}, d_.dtype);
}

Linear EndsEmitter::head(const EndWeights& w) const {
  Linear l;
  l.weight = w.head;
  l.grad = w.head_grad;
  l.in = d_.hidden();
  l.out = d_.local_vocab;
  l.transposed = true;
  return l;
}

HeadSaved EndsEmitter::loss(const EndWeights& w, std::uint32_t input, std::uint32_t tokens,
                            std::uint32_t loss_sum) {
  const double element = static_cast<double>(d_.element());
  HeadSaved saved;
  saved.norm = layer_.norm_forward(input, w.norm);
  const Linear projection = head(w);
  const char* const name[] = {"logits"};
  saved.logits = linear_.column_forward(saved.norm.output, {&projection, 1}, name)[0];
  saved.maximum = e_.local({"logit_max", d_.tokens, 1, DType::fp32, MemoryClass::activations});
  saved.sums = e_.local({"logit_sums", d_.tokens, 2, DType::fp32, MemoryClass::activations});
  const auto reduce = [&](std::uint32_t buffer, Reduction reduction) {
    if (d_.tensor_parallel())
      e_.collective({Op::all_reduce, Group::tensor, Stream::tensor, reduction}, e_.size(buffer),
                    {updates(buffer)});
  };
  e_.kernel(over_logits(KernelKind::loss_max, element, 0),
            {reads(saved.logits), writes(saved.maximum)});
  reduce(saved.maximum, Reduction::max);
  e_.kernel(over_logits(KernelKind::loss_sum, element, 0),
            {reads(saved.logits), reads(tokens), reads(saved.maximum), writes(saved.sums)});
  reduce(saved.sums, Reduction::sum);
  e_.kernel(streaming(KernelKind::loss_forward, {d_.tokens, 2}, {8, 0}, DType::fp32),
            {reads(tokens), reads(saved.maximum), reads(saved.sums), updates(loss_sum)});
  return saved;
}

std::uint32_t EndsEmitter::loss_backward(const EndWeights& w, const HeadSaved& saved,
                                         std::uint32_t tokens) {
  const std::uint32_t grad =
      e_.local({"logits_grad", d_.tokens, d_.local_vocab, d_.dtype, MemoryClass::workspace});
  const double element = static_cast<double>(d_.element());
  e_.kernel(
      over_logits(KernelKind::loss_backward, element, element),
      {reads(saved.logits), reads(tokens), reads(saved.maximum), reads(saved.sums), writes(grad)});
  const LinearUse use{grad, head(w)};
  const std::uint32_t norm_grad = linear_.column_backward(saved.norm.output, {&use, 1});
  return layer_.norm_backward(saved.norm, w.norm, w.norm_grad, norm_grad, kNone);
}

}  // namespace trainyard
