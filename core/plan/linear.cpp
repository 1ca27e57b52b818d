#include "core/plan/linear.h"

#include "core/error.h"

namespace trainyard {

void LinearEmitter::gather_part(std::uint32_t shard, std::uint32_t full, std::int32_t part) {
  const std::uint32_t out = e_.row_part(full, part, d_.parts);
  e_.collective({Op::all_gather, Group::tensor, Stream::tensor}, e_.size(out),
                {reads(e_.row_part(shard, part, d_.parts)), writes(out)});
}

std::uint32_t LinearEmitter::gather(std::uint32_t shard, const char* name) {
  if (!d_.sequence_parallel) return shard;
  const std::uint32_t full =
      e_.local({name, d_.tokens, d_.hidden(), d_.dtype, MemoryClass::communication});
  for (std::int32_t i = 0; i < d_.parts; ++i) gather_part(shard, full, i);
  return full;
}

std::uint32_t LinearEmitter::reduction_target(std::uint32_t partial, const char* name) {
  if (!d_.sequence_parallel) return partial;
  return e_.local({name,
                   d_.shard_tokens,
                   d_.hidden(),
                   d_.dtype,
                   MemoryClass::workspace,
                   {d_.tokens, d_.hidden()}});
}

void LinearEmitter::reduce_part(std::uint32_t partial, std::uint32_t reduced, std::int32_t part) {
  if (!d_.tensor_parallel()) return;
  const std::uint32_t from = e_.row_part(partial, part, d_.parts);
  if (d_.sequence_parallel) {
    e_.collective({Op::reduce_scatter, Group::tensor, Stream::tensor}, e_.size(from),
                  {reads(from), writes(e_.row_part(reduced, part, d_.parts))});
  } else {
    e_.collective({Op::all_reduce, Group::tensor, Stream::tensor}, e_.size(from), {updates(from)});
  }
}

std::uint32_t LinearEmitter::reduce(std::uint32_t partial, const char* name) {
  const std::uint32_t reduced = reduction_target(partial, name);
  for (std::int32_t i = 0; i < d_.parts; ++i) reduce_part(partial, reduced, i);
  return reduced;
}

std::vector<std::uint32_t> LinearEmitter::column_forward(std::uint32_t input,
                                                         std::span<const Linear> linears,
                                                         std::span<const char* const> names) {
  std::vector<std::uint32_t> outputs;
  for (std::size_t j = 0; j < linears.size(); ++j)
    outputs.push_back(
        e_.local({names[j], d_.tokens, linears[j].out, d_.dtype, MemoryClass::activations}));
  const std::uint32_t full =
      d_.sequence_parallel
          ? e_.local({"gathered", d_.tokens, d_.hidden(), d_.dtype, MemoryClass::communication})
          : input;
  const std::int32_t parts = d_.sequence_parallel ? d_.parts : 1;
  for (std::int32_t i = 0; i < parts; ++i) {
    if (d_.sequence_parallel) gather_part(input, full, i);
    const std::uint32_t rows = e_.row_part(full, i, parts);
    for (std::size_t j = 0; j < linears.size(); ++j) {
      const Linear& l = linears[j];
      const KernelSpec spec =
          gemm(KernelKind::gemm_forward, {d_.tokens / parts, l.out, l.in, parts}, d_.dtype,
               l.flags() | (l.bias != kNone ? kGemmBias : 0));
      const std::uint32_t out = e_.row_part(outputs[j], i, parts);
      if (l.bias == kNone)
        e_.kernel(spec, {reads(rows), reads(l.weight), writes(out)});
      else
        e_.kernel(spec, {reads(rows), reads(l.weight), reads(l.bias), writes(out)});
    }
  }
  return outputs;
}

std::uint32_t LinearEmitter::row_forward(std::span<const LinearUse> inputs) {
  const std::uint32_t partial =
      e_.local({"partial", d_.tokens, d_.hidden(), d_.dtype, MemoryClass::communication});
  const std::uint32_t reduced = reduction_target(partial, "reduced");
  for (std::int32_t i = 0; i < d_.parts; ++i) {
    const std::uint32_t out = e_.row_part(partial, i, d_.parts);
    for (std::size_t j = 0; j < inputs.size(); ++j) {
      const auto& [buffer, l] = inputs[j];
      e_.kernel(gemm(KernelKind::gemm_forward, {d_.tokens / d_.parts, l.out, l.in, d_.parts},
                     d_.dtype, l.flags() | (j > 0 ? kGemmAdds : 0)),
                {reads(e_.row_part(buffer, i, d_.parts)), reads(l.weight),
                 j > 0 ? updates(out) : writes(out)});
    }
    reduce_part(partial, reduced, i);
  }
  return reduced;
}

std::vector<std::uint32_t> LinearEmitter::row_backward(std::uint32_t output_grad,
                                                       std::span<const LinearUse> inputs) {
  std::vector<std::uint32_t> grads;
  for (const LinearUse& use : inputs)
    grads.push_back(
        e_.local({"row_input_grad", d_.tokens, use.linear.in, d_.dtype, MemoryClass::workspace}));
  const std::uint32_t full = d_.sequence_parallel
                                 ? e_.local({"gathered_grad", d_.tokens, d_.hidden(), d_.dtype,
                                             MemoryClass::communication})
                                 : output_grad;
  const std::int32_t parts = d_.sequence_parallel ? d_.parts : 1;
  for (std::int32_t i = 0; i < parts; ++i) {
    if (d_.sequence_parallel) gather_part(output_grad, full, i);
    for (std::size_t j = 0; j < inputs.size(); ++j) {
      const Linear& l = inputs[j].linear;
      e_.kernel(gemm(KernelKind::gemm_input_grad, {d_.tokens / parts, l.in, l.out, parts}, d_.dtype,
                     l.flags()),
                {reads(e_.row_part(full, i, parts)), reads(l.weight),
                 writes(e_.row_part(grads[j], i, parts))});
    }
  }
  for (const LinearUse& use : inputs) weight_gradient({use.buffer, false, full, use.linear});
  return grads;
}

std::uint32_t LinearEmitter::column_backward(std::uint32_t input,
                                             std::span<const LinearUse> output_grads) {
  const bool gather_later = d_.split_backward;
  const std::uint32_t full = gather_later ? input : gather(input, "regathered");
  const std::uint32_t partial =
      e_.local({"partial_grad", d_.tokens, d_.hidden(), d_.dtype, MemoryClass::communication});
  const std::uint32_t reduced = reduction_target(partial, "reduced_grad");
  for (std::int32_t i = 0; i < d_.parts; ++i) {
    const std::uint32_t out = e_.row_part(partial, i, d_.parts);
    for (std::size_t j = 0; j < output_grads.size(); ++j) {
      const auto& [buffer, l] = output_grads[j];
      e_.kernel(gemm(KernelKind::gemm_input_grad, {d_.tokens / d_.parts, l.in, l.out, d_.parts},
                     d_.dtype, l.flags() | (j > 0 ? kGemmAdds : 0)),
                {reads(e_.row_part(buffer, i, d_.parts)), reads(l.weight),
                 j > 0 ? updates(out) : writes(out)});
    }
    reduce_part(partial, reduced, i);
  }
  for (const LinearUse& use : output_grads)
    weight_gradient({full, gather_later && d_.sequence_parallel, use.buffer, use.linear});
  return reduced;
}

void LinearEmitter::weight_gradient(const WeightGrad& grad) {
  if (d_.split_backward)
    put_off_.push_back(grad);
  else
    compute(grad);
}

void LinearEmitter::weight_gradients() {
  for (const WeightGrad& grad : put_off_) compute(grad);
  put_off_.clear();
}

void LinearEmitter::compute(const WeightGrad& grad) {
  const Linear& l = grad.linear;
  const std::uint32_t input = grad.gather_input ? gather(grad.input, "regathered") : grad.input;
  const KernelSpec spec = gemm(KernelKind::gemm_weight_grad, {l.in, l.out, d_.tokens}, d_.dtype,
                               l.flags() | (l.bias_grad != kNone ? kGemmBias : 0));
  if (l.bias_grad == kNone)
    e_.kernel(spec, {reads(input), reads(grad.output_grad), updates(l.grad)});
  else
    e_.kernel(spec, {reads(input), reads(grad.output_grad), updates(l.grad), updates(l.bias_grad)});
}

}  // namespace trainyard
