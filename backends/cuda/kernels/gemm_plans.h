#pragma once
#include <cublasLt.h>
#include <cuda_runtime_api.h>

#include <compare>
#include <cstdint>
#include <map>
#include <memory>

#include "backends/cuda/kernels/state.h"

namespace trainyard {

// y[m,n] = a b + bias, or y += a b, of row-major matrices, `batch` times; fp32 accumulation.
struct GemmCall {
  DType in = DType::fp32, out = DType::fp32;
  std::int64_t m = 0, n = 0, k = 0;
  bool a_transposed = false, b_transposed = false;  // stored [k,m], [n,k]
  bool biased = false, adds = false;
  std::int64_t a_stride = 0, b_stride = 0, y_stride = 0;  // elements between rows
  std::int64_t batch = 1;
  std::int64_t a_step = 0, b_step = 0, y_step = 0;  // elements between members of the batch
  auto operator<=>(const GemmCall&) const = default;
};

struct GemmPointers {
  const void *a, *b;
  void* y;
  const void* bias = nullptr;  // n elements of type `out`
};

// cuBLASLt products of one stream. The algorithm is chosen once for a call and the alignment of its
// operands, by the library's heuristic for the workspace there is.
class GemmPlans {
 public:
  GemmPlans();
  ~GemmPlans();
  GemmPlans(const GemmPlans&) = delete;
  GemmPlans& operator=(const GemmPlans&) = delete;

  void run(const GemmCall& call, const GemmPointers& pointers, cudaStream_t stream);
  std::size_t size() const { return plans_.size(); }

 private:
  struct Plan;
  struct Key {
    GemmCall call;
    std::uint32_t a_alignment, b_alignment, y_alignment;  // bytes
    auto operator<=>(const Key&) const = default;
  };
  Plan& plan(const Key& key);

  cublasLtHandle_t handle_ = nullptr;
  DeviceBytes workspace_;
  std::map<Key, std::unique_ptr<Plan>> plans_;
};

}  // namespace trainyard
