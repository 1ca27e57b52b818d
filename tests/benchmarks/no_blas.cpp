#include "tests/benchmarks/blas.h"

namespace trainyard {

bool has_blas() { return false; }
void blas_product(const BlasProduct&, const float*, const float*, float*, int) {}

}  // namespace trainyard
