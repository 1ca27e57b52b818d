#pragma once
#include <cuda_runtime_api.h>

#include <stdexcept>

namespace trainyard {

// A call of CUDA or of one of its libraries failed; the message names the call and its code.
class CudaError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Throws CudaError unless `code` is cudaSuccess.
void require(cudaError_t code, const char* call);

}  // namespace trainyard
