#include "core/plan/layer.h"

namespace trainyard {
std::uint32_t LayerEmitter::rows(const char* name, std::int64_t columns, MemoryClass memory) {
  return e_.local({name, d_.tokens, columns, d_.dtype, memory});
}

Linear LayerEmitter::linear_of(const LayerWeights& w, Weight weight) const {
  Linear l;
  l.weight = w.of(weight);
  l.grad = w.grad_of(weight);
  switch (weight) {
    case Weight::qkv:
      l.bias = w.of(Weight::qkv_bias);
      l.bias_grad = w.grad_of(Weight::qkv_bias);
      l.in = d_.hidden();
      l.out = d_.qkv + (d_.parallel_block ? d_.fc1 : 0);
      break;
    case Weight::proj:
      l.in = d_.query + (d_.parallel_block ? d_.ffn : 0);
      l.out = d_.hidden();
      break;
    case Weight::fc1:
      l.in = d_.hidden();
      l.out = d_.fc1;
      break;
    default:
      l.in = d_.ffn;
      l.out = d_.hidden();
  }
  return l;
}

Normed LayerEmitter::norm_forward(std::uint32_t input, std::uint32_t gamma) {
  Normed n{.input = input};
  n.output = e_.local(
      {"norm_out", d_.shard_tokens, d_.hidden(), d_.dtype, kKept, {d_.tokens, d_.hidden()}});
  n.statistics = e_.local({"norm_stats", d_.shard_tokens, 2, DType::fp32, kKept});
  const double element = static_cast<double>(d_.element());
  KernelSpec spec = streaming(KernelKind::norm_forward, {d_.shard_tokens, d_.hidden()},
                              {element, element}, d_.dtype);
  spec.flag = static_cast<std::uint8_t>(d_.model.norm);
  e_.kernel(spec, {reads(input), reads(gamma), writes(n.output), writes(n.statistics)});
  return n;
}

std::uint32_t LayerEmitter::norm_backward(const Normed& n, std::uint32_t gamma,
                                          std::uint32_t gamma_grad, std::uint32_t grad,
                                          std::uint32_t residual_grad) {
  const std::uint32_t out = e_.local(
      {"residual_grad", d_.shard_tokens, d_.hidden(), d_.dtype, kWork, {d_.tokens, d_.hidden()}});
  const double element = static_cast<double>(d_.element());
  const bool add = residual_grad != kNone;
  KernelSpec spec = streaming(KernelKind::norm_backward, {d_.shard_tokens, d_.hidden()},
                              {(add ? 3 : 2) * element, element}, d_.dtype);
  spec.flag = static_cast<std::uint8_t>(d_.model.norm);
  if (add)
    e_.kernel(spec, {reads(grad), reads(n.input), reads(n.statistics), reads(gamma), writes(out),
                     updates(gamma_grad), reads(residual_grad)});
  else
    e_.kernel(spec, {reads(grad), reads(n.input), reads(n.statistics), reads(gamma), writes(out),
                     updates(gamma_grad)});
  return out;
}

LayerEmitter::Branch LayerEmitter::branch(const LayerWeights& w, Weight bias,
                                          LayerDropout which) const {
  return {w.of(bias), w.grad_of(bias), {d_.model.dropout, dropout_site(w.layer, which)}};
}

LayerEmitter::Added LayerEmitter::residual_forward(std::uint32_t value, const Branch& branch,
                                                   std::uint32_t residual) {
  const bool dropout = branch.dropout.probability > 0, biased = branch.bias != kNone;
  const double element = static_cast<double>(d_.element());
  KernelSpec spec = streaming(KernelKind::residual_forward, {d_.shard_tokens, d_.hidden()},
                              {2 * element, element + (dropout ? 1 : 0)}, d_.dtype);
  set_dropout(spec, branch.dropout);
  spec.flag = biased ? 1 : 0;
  const std::uint32_t out = e_.local(
      {"residual", d_.shard_tokens, d_.hidden(), d_.dtype, kKept, {d_.tokens, d_.hidden()}});
  const std::uint32_t mask =
      dropout ? e_.local({"dropout_mask", d_.shard_tokens, d_.hidden(), DType::uint8, kKept})
              : kNone;
  const std::uint32_t instr = e_.kernel(spec, {reads(value), reads(residual), writes(out)});
  if (biased) e_.add_use(instr, reads(branch.bias));
  if (dropout) e_.add_use(instr, writes(mask));
  return {out, mask};
}

std::uint32_t LayerEmitter::residual_backward(std::uint32_t grad, std::uint32_t mask,
                                              const Branch& branch) {
  if (mask == kNone && branch.bias_grad == kNone) return grad;
  const double element = static_cast<double>(d_.element());
  const bool dropout = mask != kNone;
  KernelSpec spec = streaming(KernelKind::residual_backward, {d_.shard_tokens, d_.hidden()},
                              {element + (dropout ? 1 : 0), dropout ? element : 0}, d_.dtype);
  set_dropout(spec, branch.dropout);
  spec.flag = branch.bias_grad != kNone ? 1 : 0;
  const std::uint32_t instr = e_.kernel(spec, {reads(grad)});
  std::uint32_t out = grad;
  if (dropout) {
    out = e_.local(
        {"branch_grad", d_.shard_tokens, d_.hidden(), d_.dtype, kWork, {d_.tokens, d_.hidden()}});
    e_.add_use(instr, reads(mask));
    e_.add_use(instr, writes(out));
  }
  if (branch.bias_grad != kNone) e_.add_use(instr, updates(branch.bias_grad));
  return out;
}

void LayerEmitter::activation_forward(const LayerWeights& w, std::uint32_t in, std::uint32_t out) {
  const bool gated = d_.model.activation == Activation::swiglu;
  const double element = static_cast<double>(d_.element());
  KernelSpec spec = streaming(KernelKind::activation_forward, {d_.tokens, d_.ffn},
                              {(gated ? 2 : 1) * element, element}, d_.dtype);
  spec.flag = static_cast<std::uint8_t>(d_.model.activation);
  const std::uint32_t instr = e_.kernel(spec, {reads(in), writes(out)});
  if (w.of(Weight::fc1_bias) != kNone) e_.add_use(instr, reads(w.of(Weight::fc1_bias)));
}

void LayerEmitter::activation_backward(const LayerWeights& w, std::uint32_t in,
                                       std::uint32_t out_grad, std::uint32_t in_grad) {
  const bool gated = d_.model.activation == Activation::swiglu;
  const double element = static_cast<double>(d_.element());
  KernelSpec spec = streaming(KernelKind::activation_backward, {d_.tokens, d_.ffn},
                              {(gated ? 3 : 2) * element, (gated ? 2 : 1) * element}, d_.dtype);
  spec.flag = static_cast<std::uint8_t>(d_.model.activation);
  const std::uint32_t instr = e_.kernel(spec, {reads(in), reads(out_grad), writes(in_grad)});
  if (w.of(Weight::fc1_bias) != kNone) {
    e_.add_use(instr, reads(w.of(Weight::fc1_bias)));
    e_.add_use(instr, updates(w.grad_of(Weight::fc1_bias)));
  }
}

LayerSaved LayerEmitter::forward(const LayerWeights& w, std::uint32_t input) {
  return d_.parallel_block ? parallel_forward(w, input) : serial_forward(w, input);
}

std::uint32_t LayerEmitter::backward(const LayerWeights& w, const LayerSaved& saved,
                                     std::uint32_t output_grad) {
  return d_.parallel_block ? parallel_backward(w, saved, output_grad)
                           : serial_backward(w, saved, output_grad);
}

LayerSaved LayerEmitter::serial_forward(const LayerWeights& w, std::uint32_t input) {
  LayerSaved s;
  s.norm1 = norm_forward(input, w.of(Weight::norm1));
  const Linear qkv = linear_of(w, Weight::qkv), fc1 = linear_of(w, Weight::fc1);
  const char* const qkv_name[] = {"qkv"};
  const char* const fc1_name[] = {"fc1_out"};
  const auto qkv_out = linear_.column_forward(s.norm1.output, {&qkv, 1}, qkv_name);
  s.attention = attention_.forward(w.layer, qkv_out[0], rows("context", d_.query, kKept));
  const LinearUse proj{s.attention.out, linear_of(w, Weight::proj)};
  const Branch after_attention = branch(w, Weight::proj_bias, LayerDropout::after_attention);
  const Added middle = residual_forward(linear_.row_forward({&proj, 1}), after_attention, input);
  s.attention_mask = middle.mask;
  s.norm2 = norm_forward(middle.output, w.of(Weight::norm2));
  s.fc1_out = linear_.column_forward(s.norm2.output, {&fc1, 1}, fc1_name)[0];
  s.act_out = rows("act_out", d_.ffn, kKept);
  activation_forward(w, s.fc1_out, s.act_out);
  const LinearUse fc2{s.act_out, linear_of(w, Weight::fc2)};
  const Branch output = branch(w, Weight::fc2_bias, LayerDropout::output);
  const Added end = residual_forward(linear_.row_forward({&fc2, 1}), output, middle.output);
  s.output_mask = end.mask;
  s.output = end.output;
  return s;
}

std::uint32_t LayerEmitter::serial_backward(const LayerWeights& w, const LayerSaved& s,
                                            std::uint32_t output_grad) {
  const std::uint32_t mlp_grad = residual_backward(
      output_grad, s.output_mask, branch(w, Weight::fc2_bias, LayerDropout::output));
  const LinearUse fc2{s.act_out, linear_of(w, Weight::fc2)};
  const std::uint32_t act_grad = linear_.row_backward(mlp_grad, {&fc2, 1})[0];
  const std::uint32_t fc1_grad = rows("fc1_grad", d_.fc1, kWork);
  activation_backward(w, s.fc1_out, act_grad, fc1_grad);
  const LinearUse fc1{fc1_grad, linear_of(w, Weight::fc1)};
  const std::uint32_t norm2_grad = linear_.column_backward(s.norm2.output, {&fc1, 1});
  const std::uint32_t middle_grad = norm_backward(
      s.norm2, w.of(Weight::norm2), w.grad_of(Weight::norm2), norm2_grad, output_grad);

  const std::uint32_t attention_grad = residual_backward(
      middle_grad, s.attention_mask, branch(w, Weight::proj_bias, LayerDropout::after_attention));
  const LinearUse proj{s.attention.out, linear_of(w, Weight::proj)};
  const std::uint32_t context_grad = linear_.row_backward(attention_grad, {&proj, 1})[0];
  const std::uint32_t qkv_grad = rows("qkv_grad", d_.qkv, kWork);
  attention_.backward(w.layer, s.attention, context_grad, qkv_grad);
  const LinearUse qkv{qkv_grad, linear_of(w, Weight::qkv)};
  const std::uint32_t norm1_grad = linear_.column_backward(s.norm1.output, {&qkv, 1});
  return norm_backward(s.norm1, w.of(Weight::norm1), w.grad_of(Weight::norm1), norm1_grad,
                       middle_grad);
}

}  // namespace trainyard
