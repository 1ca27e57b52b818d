#pragma once
#include "backends/cuda/kernels/cudnn_attention.h"
#include "backends/cuda/kernels/kernels.h"
#include "tests/cuda_kernels_check/cases.h"

namespace trainyard::kernels_check {

// The GPU's part of all cases.
class Gpu {
 public:
  Gpu();
  ~Gpu();
  Gpu(const Gpu&) = delete;
  Gpu& operator=(const Gpu&) = delete;

  // Runs the case on the CPU and on the GPU. The largest difference, as a part of what is allowed:
  // a unit in the last place of the storage type and the case's absolute bound. NaN is infinite.
  double compare(const Case& c);
  // Seconds of a launch: the median of rounds of several launches, after one that is not counted;
  // `once`: of the second of two launches.
  double time(const Case& c, bool once);

 private:
  // Throws ConfigError, with its reason, when cuDNN is to run a case that it has no engine for.
  CudaKernelState& prepare(const Case& c);

  DeviceBytes scalars_;
  CudnnAttention no_cudnn_, all_cudnn_;
  CudaKernelState own_, cudnn_;
  cudaStream_t stream_ = nullptr;
};

}  // namespace trainyard::kernels_check
