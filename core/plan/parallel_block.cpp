#include "core/plan/layer.h"

namespace trainyard {
LayerSaved LayerEmitter::parallel_forward(const LayerWeights& w, std::uint32_t input) {
  LayerSaved s;
  s.norm1 = norm_forward(input, w.of(Weight::norm1));
  std::uint32_t qkv = kNone, context = kNone;
  if (d_.fused_block) {
    const Linear joint = linear_of(w, Weight::qkv);
    const char* const name[] = {"qkv_fc1"};
    const std::uint32_t out = linear_.column_forward(s.norm1.output, {&joint, 1}, name)[0];
    qkv = e_.column_part(out, 0, d_.qkv, 0);
    s.fc1_out = e_.column_part(out, d_.qkv, d_.fc1, 1);
    s.joint_in = rows("context_act", d_.query + d_.ffn, kKept);
    context = e_.column_part(s.joint_in, 0, d_.query, 0);
    s.act_out = e_.column_part(s.joint_in, d_.query, d_.ffn, 1);
  } else {
    const Linear both[] = {linear_of(w, Weight::qkv), linear_of(w, Weight::fc1)};
    const char* const names[] = {"qkv", "fc1_out"};
    const auto out = linear_.column_forward(s.norm1.output, both, names);
    qkv = out[0];
    s.fc1_out = out[1];
    context = rows("context", d_.query, kKept);
    s.act_out = rows("act_out", d_.ffn, kKept);
  }
  s.attention = attention_.forward(w.layer, qkv, context);
  activation_forward(w, s.fc1_out, s.act_out);

  std::uint32_t sum = kNone;
  if (d_.fused_block) {
    const LinearUse joint{s.joint_in, linear_of(w, Weight::proj)};
    sum = linear_.row_forward({&joint, 1});
  } else {
    const LinearUse both[] = {{s.attention.out, linear_of(w, Weight::proj)},
                              {s.act_out, linear_of(w, Weight::fc2)}};
    sum = linear_.row_forward(both);
  }
  const Added end =
      residual_forward(sum, branch(w, Weight::proj_bias, LayerDropout::output), input);
  s.output_mask = end.mask;
  s.output = end.output;
  return s;
}

std::uint32_t LayerEmitter::parallel_backward(const LayerWeights& w, const LayerSaved& s,
                                              std::uint32_t output_grad) {
  const std::uint32_t branch_grad = residual_backward(
      output_grad, s.output_mask, branch(w, Weight::proj_bias, LayerDropout::output));
  std::uint32_t context_grad = kNone, act_grad = kNone, qkv_grad = kNone, fc1_grad = kNone;
  std::uint32_t joint_grad = kNone;
  if (d_.fused_block) {
    const LinearUse joint{s.joint_in, linear_of(w, Weight::proj)};
    const std::uint32_t grad = linear_.row_backward(branch_grad, {&joint, 1})[0];
    context_grad = e_.column_part(grad, 0, d_.query, 0);
    act_grad = e_.column_part(grad, d_.query, d_.ffn, 1);
    joint_grad = rows("qkv_fc1_grad", d_.qkv + d_.fc1, kWork);
    qkv_grad = e_.column_part(joint_grad, 0, d_.qkv, 0);
    fc1_grad = e_.column_part(joint_grad, d_.qkv, d_.fc1, 1);
  } else {
    const LinearUse both[] = {{s.attention.out, linear_of(w, Weight::proj)},
                              {s.act_out, linear_of(w, Weight::fc2)}};
    const auto grads = linear_.row_backward(branch_grad, both);
    context_grad = grads[0];
    act_grad = grads[1];
    qkv_grad = rows("qkv_grad", d_.qkv, kWork);
    fc1_grad = rows("fc1_grad", d_.fc1, kWork);
  }
  activation_backward(w, s.fc1_out, act_grad, fc1_grad);
  attention_.backward(w.layer, s.attention, context_grad, qkv_grad);

  std::uint32_t norm_grad = kNone;
  if (d_.fused_block) {
    const LinearUse joint{joint_grad, linear_of(w, Weight::qkv)};
    norm_grad = linear_.column_backward(s.norm1.output, {&joint, 1});
  } else {
    const LinearUse both[] = {{qkv_grad, linear_of(w, Weight::qkv)},
                              {fc1_grad, linear_of(w, Weight::fc1)}};
    norm_grad = linear_.column_backward(s.norm1.output, both);
  }
  return norm_backward(s.norm1, w.of(Weight::norm1), w.grad_of(Weight::norm1), norm_grad,
                       output_grad);
}

}  // namespace trainyard
