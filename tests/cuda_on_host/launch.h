#pragma once
#include <cuda_runtime_api.h>

#include <cstddef>
#include <functional>
#include <tuple>

#include "tests/cuda_on_host/block.h"

struct cudaLaunchAttribute;
struct cudaLaunchConfig_t {
  dim3 gridDim, blockDim;
  std::size_t dynamicSmemBytes = 0;
  cudaStream_t stream = nullptr;
  cudaLaunchAttribute* attrs = nullptr;
  unsigned numAttrs = 0;
};

enum cudaFuncAttribute { cudaFuncAttributeMaxDynamicSharedMemorySize = 8 };

namespace trainyard::cuda_on_host {

// Puts the grid on the stream. cudaErrorInvalidValue for more shared memory than the kernel was
// allowed, cudaErrorInvalidConfiguration for a grid that no GPU runs.
cudaError_t launch(const void* kernel, const cudaLaunchConfig_t& config,
                   std::function<void()> thread);
cudaError_t allow_shared_bytes(const void* kernel, int bytes);

}  // namespace trainyard::cuda_on_host

// Arguments are copied at the call, as a GPU's driver does.
template <class... Parameters, class... Arguments>
cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t* config, void (*kernel)(Parameters...),
                               Arguments&&... arguments) {
  return trainyard::cuda_on_host::launch(
      reinterpret_cast<const void*>(kernel), *config,
      [kernel, copies = std::tuple<Parameters...>(arguments...)] { std::apply(kernel, copies); });
}

template <class Kernel>
cudaError_t cudaFuncSetAttribute(Kernel* kernel, cudaFuncAttribute, int bytes) {
  return trainyard::cuda_on_host::allow_shared_bytes(reinterpret_cast<const void*>(kernel), bytes);
}
