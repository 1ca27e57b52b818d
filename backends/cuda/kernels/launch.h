#pragma once
#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <span>

#include "backends/common/kernel_call.h"
#include "backends/cuda/kernels/state.h"

namespace trainyard::cuda_kernels {

// One call of launch_kernel(), as bodies see it.
struct CudaLaunch {
  const KernelSpec& spec;
  std::span<const Matrix> operands;
  const KernelContext& context;
  CudaKernelState& state;
  cudaStream_t stream;
};

// Throws InternalError with the kernel's name and the message unless `condition` holds. (nvcc
// cannot read the formatted messages of core/error.h.)
void expect(const CudaLaunch& launch, bool condition, const char* message);

inline bool has_operand(const CudaLaunch& launch, std::size_t index) {
  return index < launch.operands.size();
}

// Operand `index` as it is; it must hold elements of `dtype`.
Matrix operand_of(const CudaLaunch& launch, std::size_t index, DType dtype);

struct Extent {
  std::int64_t rows, columns;
};
// Operand `index` as a matrix of this extent; a contiguous one may have another shape of that size.
Matrix operand_of(const CudaLaunch& launch, std::size_t index, DType dtype, Extent extent);

// Scratch memory that a kernel of this spec needs.
std::size_t scratch_bytes(const KernelSpec& spec, const KernelContext& context);

}  // namespace trainyard::cuda_kernels
