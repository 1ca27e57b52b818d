#include "tests/benchmarks/blas.h"

#include <cblas.h>

namespace trainyard {

bool has_blas() { return true; }

void blas_product(const BlasProduct& p, const float* a, const float* b, float* y, int threads) {
  openblas_set_num_threads(threads);
  const auto m = static_cast<int>(p.m), n = static_cast<int>(p.n), k = static_cast<int>(p.k);
  cblas_sgemm(CblasRowMajor, p.left ? CblasTrans : CblasNoTrans,
              p.right ? CblasTrans : CblasNoTrans, m, n, k, 1, a, p.left ? m : k, b,
              p.right ? k : n, p.adds ? 1 : 0, y, n);
}

}  // namespace trainyard
