#include "simulator/spread.h"

#include <cmath>

namespace trainyard {
namespace {

// The x below which a standard normal variable lies with `probability` >= 1/2, by bisection.
double normal_quantile(double probability) {
  double low = 0, high = 10;
  for (int i = 0; i < 60; ++i) {
    const double middle = (low + high) / 2;
    (std::erfc(middle / std::sqrt(2.0)) / 2 > 1 - probability ? low : high) = middle;
  }
  return low;
}

}  // namespace

double expected_slowest(double spread, std::int64_t gpus) {
  if (spread <= 0 || gpus < 2) return 1;
  const double n = static_cast<double>(gpus);
  return 1 + spread * normal_quantile((n - 0.375) / (n + 0.25));
}

}  // namespace trainyard
