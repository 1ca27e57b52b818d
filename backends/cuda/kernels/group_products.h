#pragma once
#include "backends/cuda/kernels/attention_layout.h"
#include "backends/cuda/kernels/launch.h"

namespace trainyard::cuda_kernels {

// For each key head the sum, over the query heads that share it, of square^T left:
// to[key, dim] = sum over heads and queries of square[query, key] left[query, dim]. A batch of a
// library's products would round each head's part.
struct GroupProducts {
  HeadLayout heads;
  DType dtype;
  const void* square;
  std::int64_t square_stride;
  const void* left;  // columns of query heads
  std::int64_t left_stride;
  void* to;  // columns of key heads
  std::int64_t to_stride;
};

void group_products(const CudaLaunch& launch, const GroupProducts& products);

}  // namespace trainyard::cuda_kernels
