#include "tests/cuda_on_host/matrix_product.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>

namespace trainyard::cuda_on_host {
namespace {

float get(const void* data, cudaDataType_t type, std::int64_t i) {
  switch (type) {
    case CUDA_R_16BF:
      return __bfloat162float(static_cast<const __nv_bfloat16*>(data)[i]);
    case CUDA_R_16F:
      return __half2float(static_cast<const __half*>(data)[i]);
    default:
      return static_cast<const float*>(data)[i];
  }
}

void put(void* data, cudaDataType_t type, std::int64_t i, float value) {
  switch (type) {
    case CUDA_R_16BF:
      static_cast<__nv_bfloat16*>(data)[i] = __float2bfloat16_rn(value);
      return;
    case CUDA_R_16F:
      static_cast<__half*>(data)[i] = __float2half_rn(value);
      return;
    default:
      static_cast<float*>(data)[i] = value;
  }
}

// op(m) by columns: element (i, j) at [j * rows + i].
std::vector<float> columns_of(const ColumnMajor& m, const void* data, bool transposed) {
  const auto rows = static_cast<std::int64_t>(m.rows),
             columns = static_cast<std::int64_t>(m.columns);
  std::vector<float> out(static_cast<std::size_t>(rows * columns));
  for (std::int64_t j = 0; j < columns; ++j)
    for (std::int64_t i = 0; i < rows; ++i)
      out[static_cast<std::size_t>(transposed ? i * columns + j : j * rows + i)] =
          get(data, m.type, j * m.ld + i);
  return out;
}

}  // namespace

std::int64_t bytes_of(cudaDataType_t type) { return type == CUDA_R_32F ? 4 : 2; }

void multiply(const Product& p, const void* a, const void* b, void* d) {
  const auto m = static_cast<std::int64_t>(p.d.rows), n = static_cast<std::int64_t>(p.d.columns);
  const auto k = static_cast<std::int64_t>(p.a_transposed ? p.a.rows : p.a.columns);
  const std::vector<float> left = columns_of(p.a, a, p.a_transposed);
  const std::vector<float> right = columns_of(p.b, b, p.b_transposed);
  std::vector<float> sums(static_cast<std::size_t>(m));
  for (std::int64_t j = 0; j < n; ++j) {
    std::fill(sums.begin(), sums.end(), 0.0F);
    for (std::int64_t l = 0; l < k; ++l) {
      const float factor = right[static_cast<std::size_t>(j * k + l)];
      const float* const column = left.data() + l * m;
      for (std::int64_t i = 0; i < m; ++i) sums[static_cast<std::size_t>(i)] += column[i] * factor;
    }
    for (std::int64_t i = 0; i < m; ++i) {
      float value = p.alpha * sums[static_cast<std::size_t>(i)];
      if (p.beta != 0) value += p.beta * get(d, p.d.type, j * p.d.ld + i);
      if (p.bias != nullptr) value += get(p.bias, p.d.type, i);
      put(d, p.d.type, j * p.d.ld + i, value);
    }
  }
}

}  // namespace trainyard::cuda_on_host
