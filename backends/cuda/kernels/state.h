#pragma once
#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <tuple>
#include <utility>

#include "backends/common/kernel_call.h"
#include "backends/cuda/kernels/owned_bytes.h"
#include "backends/cuda/kernels/step_scalars.h"

namespace trainyard {

class GemmPlans;
class CudnnAttention;

// A run of elements of one tensor of a flat operand, or of none (tensor -1: padding), that one
// block works on.
struct Chunk {
  std::int64_t first = 0;
  std::int32_t elements = 0, tensor = -1;
  bool in_gradient_norm = false, in_own_norm = false, decays = false;
};

// A flat operand's tensors in device memory.
struct DeviceTensors {
  DeviceBytes chunk_memory, tensor_memory;
  const Chunk* chunks = nullptr;
  std::int64_t chunk_count = 0;
  // Of each tensor: its first chunk; one more entry for the end. Its flags are those of its chunks.
  const std::int32_t* first_chunk = nullptr;
  std::int64_t tensor_count = 0;
};

// What kernels of one stream need between launches. One for each stream that runs kernels: launches
// share the scratch memory, in the stream's order.
class CudaKernelState {
 public:
  // `scalars`: device memory, which the caller uploads before each step. `attention`: of all
  // streams of a thread.
  CudaKernelState(const StepScalars* scalars, CudnnAttention& attention);
  ~CudaKernelState();

  // Makes memory, tensor and tensor lists ready for a kernel that will be launched. Not while
  // launches are under way. The context's list of tensors is known by its address afterwards.
  void prepare(const KernelSpec& spec, const KernelContext& context);

  const StepScalars* scalars() const { return scalars_; }
  // At least `bytes` that the kernel just launched may write. Throws InternalError if no kernel
  // that was prepared needs as much.
  void* scratch(std::size_t bytes) const;
  const DeviceTensors& tensors(const KernelContext& context, std::int64_t elements) const;
  GemmPlans& gemm() { return *gemm_; }
  CudnnAttention& cudnn_attention() { return attention_; }

 private:
  using TensorKey = std::tuple<const FlatTensor*, std::size_t, std::int64_t>;
  const StepScalars* scalars_;
  DeviceBytes scratch_;
  std::map<TensorKey, DeviceTensors> tensors_;
  std::unique_ptr<GemmPlans> gemm_;
  CudnnAttention& attention_;
};

}  // namespace trainyard
