#include "backends/cuda/kernels/kernels.h"

#include <array>

#include "backends/cuda/kernels/attention_layout.h"
#include "backends/cuda/kernels/bodies.h"
#include "backends/cuda/kernels/chunks.h"
#include "backends/cuda/kernels/column_sums.h"

namespace trainyard {
namespace {

using K = KernelKind;
using cuda_kernels::CudaLaunch;

struct Entry {
  KernelKind kind;
  void (&body)(const CudaLaunch&);
};

constexpr std::array<Entry, kKernelKinds> kCudaBodies{{
    {K::gemm_forward, cuda_kernels::gemm_forward},
    {K::gemm_input_grad, cuda_kernels::gemm_input_grad},
    {K::gemm_weight_grad, cuda_kernels::gemm_weight_grad},
    {K::attention_forward, cuda_kernels::attention_forward},
    {K::attention_backward, cuda_kernels::attention_backward},
    {K::attention_scores, cuda_kernels::attention_scores},
    {K::attention_scores_grad, cuda_kernels::attention_scores_grad},
    {K::attention_context, cuda_kernels::attention_context},
    {K::attention_context_grad, cuda_kernels::attention_context_grad},
    {K::softmax_forward, cuda_kernels::softmax_forward},
    {K::softmax_backward, cuda_kernels::softmax_backward},
    {K::dropout_forward, cuda_kernels::dropout_forward},
    {K::dropout_backward, cuda_kernels::dropout_backward},
    {K::rope_forward, cuda_kernels::rope_forward},
    {K::rope_backward, cuda_kernels::rope_backward},
    {K::norm_forward, cuda_kernels::norm_forward},
    {K::norm_backward, cuda_kernels::norm_backward},
    {K::activation_forward, cuda_kernels::activation_forward},
    {K::activation_backward, cuda_kernels::activation_backward},
    {K::residual_forward, cuda_kernels::residual_forward},
    {K::residual_backward, cuda_kernels::residual_backward},
    {K::add, cuda_kernels::add},
    {K::copy_columns, cuda_kernels::copy_columns},
    {K::embedding_forward, cuda_kernels::embedding_forward},
    {K::embedding_backward, cuda_kernels::embedding_backward},
    {K::loss_max, cuda_kernels::loss_max},
    {K::loss_sum, cuda_kernels::loss_sum},
    {K::loss_forward, cuda_kernels::loss_forward},
    {K::loss_backward, cuda_kernels::loss_backward},
    {K::adam, cuda_kernels::adam},
    {K::adamw, cuda_kernels::adamw},
    {K::lamb_update, cuda_kernels::lamb_update},
    {K::lamb_apply, cuda_kernels::lamb_apply},
    {K::grad_norm, cuda_kernels::grad_norm},
    {K::grad_clip, cuda_kernels::grad_clip},
    {K::zero, cuda_kernels::zero},
}};

constexpr bool every_cuda_kind_once_in_order() {
  for (int i = 0; i < kKernelKinds; ++i)
    if (static_cast<int>(kCudaBodies[i].kind) != i) return false;
  return true;
}
static_assert(every_cuda_kind_once_in_order(), "kCudaBodies lists each KernelKind once, in order");

}  // namespace

void launch_kernel(const KernelSpec& spec, std::span<const Matrix> operands,
                   const KernelContext& context, CudaKernelState& state, cudaStream_t stream) {
  kCudaBodies[static_cast<std::size_t>(spec.kind)].body({spec, operands, context, state, stream});
}

std::size_t cuda_kernels::scratch_bytes(const KernelSpec& spec, const KernelContext& context) {
  const std::int64_t rows = spec.shape[0], columns = spec.shape[1];
  const auto tensors = static_cast<std::int64_t>(context.tensors.size());
  switch (spec.kind) {
    case K::gemm_weight_grad:
      return (spec.flag & kGemmBias) != 0 ? column_sums_bytes(spec.shape[2], columns) : 0;
    case K::norm_backward:
    case K::activation_backward:
      return column_sums_bytes(rows, 2 * columns);
    case K::residual_backward:
      return column_sums_bytes(rows, columns);
    case K::lamb_update:
    case K::grad_norm:
      return static_cast<std::size_t>(most_chunks(rows, tensors)) * 2 * sizeof(double);
    case K::attention_backward:
      return attention_backward_bytes(spec);
    default:
      return 0;
  }
}

}  // namespace trainyard
