#pragma once
#include <cstdint>

namespace trainyard {

// OpenBLAS, if it was there when the benchmarks were configured.
struct BlasProduct {
  bool left, right, adds;  // factors stored transposed; y += a b instead of y = a b
  std::int64_t m, n, k;
};
bool has_blas();
void blas_product(const BlasProduct& p, const float* a, const float* b, float* y, int threads);

}  // namespace trainyard
