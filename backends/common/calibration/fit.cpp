#include "backends/common/calibration/fit.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

namespace trainyard {
namespace {

// Normal equations of the terms chosen by the bits of `subset`; the others have their row of the
// unit matrix. Gauss with the largest pivot; a pivot of 0 leaves its coefficient 0.
Coefficients solve(std::span<const Observation> observations, unsigned subset,
                   std::span<const double> weights) {
  std::array<std::array<double, kTerms + 1>, kTerms> a{};
  for (std::size_t n = 0; n < observations.size(); ++n) {
    const Observation& o = observations[n];
    for (std::size_t i = 0; i < kTerms; ++i) {
      if ((subset >> i & 1) == 0) continue;
      const double weighted = o.terms[i] * weights[n];
      for (std::size_t j = 0; j < kTerms; ++j)
        if ((subset >> j & 1) != 0) a[i][j] += weighted * o.terms[j];
      a[i][kTerms] += weighted * o.value;
    }
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

double squares(const Coefficients& c, std::span<const Observation> observations,
               std::span<const double> weights) {
  double sum = 0;
  for (std::size_t n = 0; n < observations.size(); ++n) {
    const double error = evaluate(c, observations[n].terms) - observations[n].value;
    sum += error * error * weights[n];
  }
  return sum;
}

// The best among the unconstrained fits of all subsets of terms that have no coefficient below 0
// is the constrained one: its positive terms are one of the subsets.
Coefficients fit_weighted(std::span<const Observation> observations,
                          std::span<const double> weights) {
  Coefficients best{};
  double least = squares(best, observations, weights);
  for (unsigned subset = 1; subset < 1U << kTerms; ++subset) {
    const Coefficients c = solve(observations, subset, weights);
    if (std::ranges::any_of(c, [](double value) { return value < 0; })) continue;
    const double sum = squares(c, observations, weights);
    if (sum >= least) continue;
    least = sum;
    best = c;
  }
  return best;
}

}  // namespace

double evaluate(const Coefficients& c, const std::array<double, kTerms>& terms) {
  double sum = 0;
  for (std::size_t i = 0; i < kTerms; ++i) sum += c[i] * terms[i];
  return sum;
}

// Weights by the values themselves would give those that came out low more of it, and a fit that is
// too low by the square of their scatter. So each round weighs by what the one before predicts.
Coefficients fit_relative(std::span<const Observation> observations, double floor) {
  constexpr int kRounds = 20;
  std::vector<double> weights(observations.size());
  Coefficients fit{};
  for (int round = 0; round < kRounds; ++round) {
    for (std::size_t n = 0; n < observations.size(); ++n) {
      const double predicted = evaluate(fit, observations[n].terms);
      const double size = (predicted > 0 ? predicted : observations[n].value) + floor;
      weights[n] = 1 / (size * size);
    }
    fit = fit_weighted(observations, weights);
  }
  return fit;
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
