#include "backends/cpu/kernels/kernels.h"

#include <array>

#include "backends/cpu/kernels/bodies.h"

namespace trainyard {
namespace {

using K = KernelKind;

struct Entry {
  KernelKind kind;
  void (&body)(const Launch&);
};

constexpr std::array<Entry, kKernelKinds> kBodies{{
    {K::gemm_forward, kernels::gemm_forward},
    {K::gemm_input_grad, kernels::gemm_input_grad},
    {K::gemm_weight_grad, kernels::gemm_weight_grad},
    {K::attention_forward, kernels::attention_forward},
    {K::attention_backward, kernels::attention_backward},
    {K::attention_scores, kernels::attention_scores},
    {K::attention_scores_grad, kernels::attention_scores_grad},
    {K::attention_context, kernels::attention_context},
    {K::attention_context_grad, kernels::attention_context_grad},
    {K::softmax_forward, kernels::softmax_forward},
    {K::softmax_backward, kernels::softmax_backward},
    {K::dropout_forward, kernels::dropout_forward},
    {K::dropout_backward, kernels::dropout_backward},
    {K::rope_forward, kernels::rope_forward},
    {K::rope_backward, kernels::rope_backward},
    {K::norm_forward, kernels::norm_forward},
    {K::norm_backward, kernels::norm_backward},
    {K::activation_forward, kernels::activation_forward},
    {K::activation_backward, kernels::activation_backward},
    {K::residual_forward, kernels::residual_forward},
    {K::residual_backward, kernels::residual_backward},
    {K::add, kernels::add},
    {K::copy_columns, kernels::copy_columns},
    {K::embedding_forward, kernels::embedding_forward},
    {K::embedding_backward, kernels::embedding_backward},
    {K::loss_max, kernels::loss_max},
    {K::loss_sum, kernels::loss_sum},
    {K::loss_forward, kernels::loss_forward},
    {K::loss_backward, kernels::loss_backward},
    {K::adam, kernels::adam},
    {K::adamw, kernels::adamw},
    {K::lamb_update, kernels::lamb_update},
    {K::lamb_apply, kernels::lamb_apply},
    {K::grad_norm, kernels::grad_norm},
    {K::grad_clip, kernels::grad_clip},
    {K::zero, kernels::zero},
}};

constexpr bool every_kind_once_in_order() {
  for (int i = 0; i < kKernelKinds; ++i)
    if (static_cast<int>(kBodies[i].kind) != i) return false;
  return true;
}
static_assert(every_kind_once_in_order(), "kBodies lists each KernelKind once, in order");

void run(const Launch& launch) { kBodies[static_cast<std::size_t>(launch.spec.kind)].body(launch); }

}  // namespace

void run_kernel(const KernelSpec& spec, std::span<const Matrix> operands,
                const KernelContext& context, Workers* workers) {
  run({spec, operands, context, workers});
}

void run_kernel_in_double(const KernelSpec& spec, std::span<const Matrix> operands,
                          const KernelContext& context) {
  run({spec, operands, context, nullptr, true});
}

}  // namespace trainyard
