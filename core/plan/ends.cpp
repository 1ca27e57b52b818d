#include "core/plan/ends.h"

namespace trainyard {

EmbeddingSaved EndsEmitter::embed(const EndWeights& w, std::uint32_t tokens) {
  const double element = static_cast<double>(d_.element());
  const std::uint32_t partial =
      e_.local({"embedded", d_.tokens, d_.hidden(), d_.dtype, MemoryClass::activations});
  e_.kernel(
      streaming(KernelKind::embedding_forward, d_.tokens, d_.hidden(), element, element, d_.dtype),
      {reads(tokens), reads(w.table), writes(partial)});
  EmbeddingSaved saved{.output = linear_.reduce(partial, "embedding")};
  if (w.positions != kNone)
    e_.kernel(
        streaming(KernelKind::add, d_.shard_tokens, d_.hidden(), 2 * element, element, d_.dtype),
        {updates(saved.output), reads(w.positions)});
  if (d_.model.dropout > 0) {
    saved.mask = e_.local(
        {"embedding_mask", d_.shard_tokens, d_.hidden(), DType::uint8, MemoryClass::activations});
    KernelSpec dropout = streaming(KernelKind::dropout_forward, d_.shard_tokens, d_.hidden(),
                                   element, element + 1, d_.dtype);
    dropout.parameter = d_.model.dropout;
    e_.kernel(dropout, {updates(saved.output), writes(saved.mask)});
  }
  return saved;
}

void EndsEmitter::embed_backward(const EndWeights& w, const EmbeddingSaved& saved,
                                 std::uint32_t tokens, std::uint32_t grad) {
  const double element = static_cast<double>(d_.element());
  if (saved.mask != kNone)
    e_.kernel(streaming(KernelKind::dropout_backward, d_.shard_tokens, d_.hidden(), element + 1,
                        element, d_.dtype),
              {updates(grad), reads(saved.mask)});
  const auto scatter = [&](std::int64_t rows) {
    return streaming(KernelKind::embedding_backward, rows, d_.hidden(), element + 4, 4, d_.dtype);
  };
  if (w.positions != kNone)
    e_.kernel(scatter(d_.shard_tokens), {reads(grad), updates(w.positions_grad)});
  const std::uint32_t full = linear_.gather(grad, "gathered_grad");
  e_.kernel(scatter(d_.tokens), {reads(tokens), reads(full), updates(w.table_grad)});
}

KernelSpec EndsEmitter::over_logits(KernelKind kind, double read, double written) const {
  return streaming(kind, d_.tokens, d_.local_vocab, read, written, d_.dtype);
}

Linear EndsEmitter::head(const EndWeights& w) const {
  Linear l;
  l.weight = w.head;
  l.grad = w.head_grad;
  l.in = d_.hidden();
  l.out = d_.local_vocab;
  return l;
}

HeadSaved EndsEmitter::loss(const EndWeights& w, std::uint32_t input, std::uint32_t tokens,
                            std::uint32_t loss_sum) {
  const double element = static_cast<double>(d_.element());
  HeadSaved saved;
  saved.norm = layer_.norm_forward(input, w.norm);
  const Linear projection = head(w);
  const char* const name[] = {"logits"};
  const std::uint32_t logits = linear_.column_forward(saved.norm.output, {&projection, 1}, name)[0];
  saved.probabilities =
      e_.local({"probabilities", d_.tokens, d_.local_vocab, DType::fp32, MemoryClass::activations});
  e_.kernel(over_logits(KernelKind::cast, element, 4),
            {reads(logits), writes(saved.probabilities)});
  const std::uint32_t maximum =
      e_.local({"logit_max", d_.tokens, 1, DType::fp32, MemoryClass::workspace});
  const std::uint32_t sums =
      e_.local({"logit_sums", d_.tokens, 2, DType::fp32, MemoryClass::workspace});
  const auto reduce = [&](std::uint32_t buffer, Reduction reduction) {
    if (d_.tensor_parallel())
      e_.collective(Op::all_reduce, Group::tensor, Stream::tensor, e_.size(buffer),
                    {updates(buffer)}, reduction);
  };
  e_.kernel(over_logits(KernelKind::loss_max, 4, 0), {reads(saved.probabilities), writes(maximum)});
  reduce(maximum, Reduction::max);
  e_.kernel(over_logits(KernelKind::loss_sum, 4, 4),
            {updates(saved.probabilities), reads(maximum), reads(tokens), writes(sums)});
  reduce(sums, Reduction::sum);
  e_.kernel(over_logits(KernelKind::loss_forward, 4, 4),
            {updates(saved.probabilities), reads(sums), reads(tokens), updates(loss_sum)});
  return saved;
}

std::uint32_t EndsEmitter::loss_backward(const EndWeights& w, const HeadSaved& saved,
                                         std::uint32_t tokens) {
  const std::uint32_t grad =
      e_.local({"logits_grad", d_.tokens, d_.local_vocab, d_.dtype, MemoryClass::workspace});
  e_.kernel(over_logits(KernelKind::loss_backward, 4, static_cast<double>(d_.element())),
            {reads(saved.probabilities), reads(tokens), writes(grad)});
  const LinearUse use{grad, head(w)};
  const std::uint32_t norm_grad = linear_.column_backward(saved.norm.output, {&use, 1});
  return layer_.norm_backward(saved.norm, w.norm, w.norm_grad, norm_grad, kNone);
}

}  // namespace trainyard
