#include "core/plan/layer.h"

namespace trainyard {
LayerSaved LayerEmitter::parallel_forward(const LayerWeights& w, std::uint32_t input) {
  LayerSaved s;
  s.norm1 = norm_forward(input, w.of(Weight::norm1));
  const Linear in = linear_of(w, Weight::qkv);
  const char* const name[] = {"qkv_fc1"};
  const std::uint32_t out = linear_.column_forward(s.norm1.output, {&in, 1}, name)[0];
  const std::uint32_t qkv = e_.column_part(out, 0, d_.qkv, 0);
  s.fc1_out = e_.column_part(out, d_.qkv, d_.fc1, 1);
  s.joint_in = rows("context_act", d_.query + d_.ffn, kKept);
  const std::uint32_t context = e_.column_part(s.joint_in, 0, d_.query, 0);
  s.act_out = e_.column_part(s.joint_in, d_.query, d_.ffn, 1);
  s.attention = attention_.forward(w.layer, qkv, context);
  activation_forward(w, s.fc1_out, s.act_out);

  const LinearUse joint{s.joint_in, linear_of(w, Weight::proj)};
  const std::uint32_t sum = linear_.row_forward({&joint, 1});
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
  const LinearUse use{s.joint_in, linear_of(w, Weight::proj)};
  const std::uint32_t in_grad = linear_.row_backward(branch_grad, {&use, 1})[0];
  const std::uint32_t context_grad = e_.column_part(in_grad, 0, d_.query, 0);
  const std::uint32_t act_grad = e_.column_part(in_grad, d_.query, d_.ffn, 1);
  const std::uint32_t joint_grad = rows("qkv_fc1_grad", d_.qkv + d_.fc1, kWork);
  const std::uint32_t qkv_grad = e_.column_part(joint_grad, 0, d_.qkv, 0);
  const std::uint32_t fc1_grad = e_.column_part(joint_grad, d_.qkv, d_.fc1, 1);
  activation_backward(w, s.fc1_out, act_grad, fc1_grad);
  attention_.backward(w.layer, s.attention, context_grad, qkv_grad);

  const LinearUse joint{joint_grad, linear_of(w, Weight::qkv)};
  const std::uint32_t norm_grad = linear_.column_backward(s.norm1.output, {&joint, 1});
  return norm_backward(s.norm1, w.of(Weight::norm1), w.grad_of(Weight::norm1), norm_grad,
                       output_grad);
}

}  // namespace trainyard
