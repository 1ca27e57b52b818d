#pragma once
#include <cublasLt.h>

#include <cstdint>
#include <vector>

namespace trainyard::cuda_on_host {

// A column-major matrix in memory: element (i, j) is data[j * ld + i].
struct ColumnMajor {
  cudaDataType_t type = CUDA_R_32F;
  std::uint64_t rows = 0, columns = 0;
  std::int64_t ld = 0;
};

struct Product {
  ColumnMajor a, b, d;
  bool a_transposed = false, b_transposed = false;
  float alpha = 1, beta = 0;
  const void* bias = nullptr;  // a value of d's type for each row; null: none
};

std::int64_t bytes_of(cudaDataType_t type);

// d = alpha op(a) op(b) + beta d + bias, sums in fp32, rounded once.
void multiply(const Product& product, const void* a, const void* b, void* d);

}  // namespace trainyard::cuda_on_host
