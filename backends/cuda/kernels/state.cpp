#include "backends/cuda/kernels/state.h"

#include <algorithm>

#include "backends/cuda/kernels/chunks.h"
#include "backends/cuda/kernels/cudnn_attention.h"
#include "backends/cuda/kernels/gemm_plans.h"
#include "backends/cuda/kernels/launch.h"
#include "core/error.h"

namespace trainyard {

CudaKernelState::CudaKernelState(const StepScalars* scalars, CudnnAttention& attention)
    : scalars_(scalars), gemm_(std::make_unique<GemmPlans>()), attention_(attention) {}

CudaKernelState::~CudaKernelState() = default;

void CudaKernelState::prepare(const KernelSpec& spec, const KernelContext& context) {
  const std::size_t bytes =
      std::max(cuda_kernels::scratch_bytes(spec, context), attention_.prepare(spec));
  if (bytes > scratch_.size()) scratch_ = DeviceBytes(bytes);
  if (kernel_info(spec.kind).cost != CostClass::optimizer) return;
  const TensorKey key{context.tensors.data(), context.tensors.size(), spec.shape[0]};
  tensors_.insert_or_assign(key, cuda_kernels::upload_tensors(context.tensors, spec.shape[0]));
}

void* CudaKernelState::scratch(std::size_t bytes) const {
  check(bytes <= scratch_.size(), "a kernel that was not prepared needs {} bytes, there are {}",
        bytes, scratch_.size());
  return scratch_.data();
}

const DeviceTensors& CudaKernelState::tensors(const KernelContext& context,
                                              std::int64_t elements) const {
  const auto found = tensors_.find({context.tensors.data(), context.tensors.size(), elements});
  check(found != tensors_.end(), "tensors of a kernel that was not prepared");
  return found->second;
}

}  // namespace trainyard
