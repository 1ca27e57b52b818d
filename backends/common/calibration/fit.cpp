#include "backends/common/calibration/fit.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace trainyard {
namespace {

// Normal equations of the terms chosen by the bits of `subset`; the others have their row of the
// unit matrix. Gauss with the largest pivot; a pivot of 0 leaves its coefficient 0.
Coefficients solve(std::span<const Observation> observations, unsigned subset, double floor) {
  std::array<std::array<double, kTerms + 1>, kTerms> a{};
  for (const Observation& o : observations)
    for (std::size_t i = 0; i < kTerms; ++i) {
      if ((subset >> i & 1) == 0) continue;
      const double weighted = o.terms[i] / ((o.value + floor) * (o.value + floor));
      for (std::size_t j = 0; j < kTerms; ++j)
        if ((subset >> j & 1) != 0) a[i][j] += weighted * o.terms[j];
      a[i][kTerms] += weighted * o.value;
    }
  // Terms differ by many powers of ten: each is scaled to 1 on the diagonal.
  std::array<double, kTerms> scale{};
  for (std::size_t i = 0; i < kTerms; ++i) {
    scale[i] = a[i][i] > 0 ? 1 / std::sqrt(a[i][i]) : 0;
    if (a[i][i] <= 0) a[i][i] = 1;
  }
  for (std::size_t i = 0; i < kTerms; ++i) {
    for (std::size_t j = 0; j < kTerms; ++j)
      if (scale[i] > 0 && scale[j] > 0) a[i][j] *= scale[i] * scale[j];
    if (scale[i] > 0) a[i][kTerms] *= scale[i];
  }
  for (std::size_t i = 0; i < kTerms; ++i) {
    std::size_t pivot = i;
    for (std::size_t r = i + 1; r < kTerms; ++r)
      if (std::abs(a[r][i]) > std::abs(a[pivot][i])) pivot = r;
    std::swap(a[i], a[pivot]);
    constexpr double kSingular = 1e-12;
    if (std::abs(a[i][i]) < kSingular) continue;
    for (std::size_t r = 0; r < kTerms; ++r) {
      if (r == i) continue;
      const double factor = a[r][i] / a[i][i];
      for (std::size_t c = i; c <= kTerms; ++c) a[r][c] -= factor * a[i][c];
    }
  }
  Coefficients out{};
  for (std::size_t i = 0; i < kTerms; ++i)
    out[i] = std::abs(a[i][i]) < 1e-12 ? 0 : a[i][kTerms] / a[i][i] * scale[i];
  return out;
}

double squares(const Coefficients& c, std::span<const Observation> observations, double floor) {
  double sum = 0;
  for (const Observation& o : observations) {
    const double error = (evaluate(c, o.terms) - o.value) / (o.value + floor);
    sum += error * error;
  }
  return sum;
}

}  // namespace

double evaluate(const Coefficients& c, const std::array<double, kTerms>& terms) {
  double sum = 0;
  for (std::size_t i = 0; i < kTerms; ++i) sum += c[i] * terms[i];
  return sum;
}

// The best among the unconstrained fits of all subsets of terms that have no coefficient below 0
// is the constrained one: its positive terms are one of the subsets.
Coefficients fit_relative(std::span<const Observation> observations, double floor) {
  Coefficients best{};
  double least = squares(best, observations, floor);
  for (unsigned subset = 1; subset < 1U << kTerms; ++subset) {
    const Coefficients c = solve(observations, subset, floor);
    if (std::ranges::any_of(c, [](double value) { return value < 0; })) continue;
    const double sum = squares(c, observations, floor);
    if (sum >= least) continue;
    least = sum;
    best = c;
  }
  return best;
}

FitError error_of(const Coefficients& c, std::span<const Observation> observations) {
  FitError out;
  for (const Observation& o : observations) {
    const double error = std::abs(evaluate(c, o.terms) / o.value - 1);
    out.mean += error;
    out.largest = std::max(out.largest, error);
    ++out.count;
  }
  if (out.count > 0) out.mean /= static_cast<double>(out.count);
  return out;
}

}  // namespace trainyard
