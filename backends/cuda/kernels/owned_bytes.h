#pragma once
#include <cuda_runtime_api.h>

#include <cstddef>
#include <utility>

#include "backends/cuda/kernels/cuda_error.h"

namespace trainyard {

// Memory that is freed at the end. Throws CudaError when there is none left.
template <cudaError_t (*kAllocate)(void**, std::size_t), cudaError_t (*kFree)(void*)>
class OwnedBytes {
 public:
  OwnedBytes() = default;
  explicit OwnedBytes(std::size_t bytes) : size_(bytes) {
    if (bytes > 0) require(kAllocate(&data_, bytes), "memory of the GPU or for it");
  }
  ~OwnedBytes() {
    if (data_ != nullptr) kFree(data_);
  }
  OwnedBytes(OwnedBytes&& other) noexcept { *this = std::move(other); }
  OwnedBytes& operator=(OwnedBytes&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    return *this;
  }
  void* data() const { return data_; }
  template <class T>
  T* as() const {
    return static_cast<T*>(data_);
  }
  std::size_t size() const { return size_; }

 private:
  void* data_ = nullptr;
  std::size_t size_ = 0;
};

using DeviceBytes = OwnedBytes<cudaMalloc, cudaFree>;
// Of the host, which a GPU copies from and to while others work.
using PinnedBytes = OwnedBytes<cudaMallocHost, cudaFreeHost>;

}  // namespace trainyard
