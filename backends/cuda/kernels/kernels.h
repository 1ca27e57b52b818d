#pragma once
#include <cuda_runtime_api.h>

#include <span>

#include "backends/common/kernel_call.h"
#include "backends/cuda/kernels/state.h"

namespace trainyard {

// Puts one kernel of kernel_table() (core/program/kernel.cpp) on the stream. Operands are in device
// memory. Allocates nothing and waits for nothing: the state must have been prepared for the
// kernel. The context's step, loss weight, gradient scale, learning rate, update and skip flag are
// not looked at; the state's StepScalars hold them. Throws InternalError when operands do not fit
// the spec, CudaError when the launch fails.
void launch_kernel(const KernelSpec& spec, std::span<const Matrix> operands,
                   const KernelContext& context, CudaKernelState& state, cudaStream_t stream);

// Sets scalars->skip if the global norm, the operand of the host's read_norm, says that gradients
// overflowed: norm[1,2] fp32, sum of squares and number of values that are not finite.
void check_overflow(const Matrix& norm, StepScalars* scalars, cudaStream_t stream);

}  // namespace trainyard
