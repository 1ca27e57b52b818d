#pragma once
#include <array>
#include <cstddef>
#include <span>

namespace trainyard {

inline constexpr std::size_t kTerms = 3;

// A measured value and what the terms of a model are there: value ~ sum of c[i] * terms[i].
struct Observation {
  std::array<double, kTerms> terms{};
  double value = 0;  // above 0
};

using Coefficients = std::array<double, kTerms>;

// The coefficients, none below 0, for which the sum of squares of relative errors is least; an
// error counts relative to what is predicted and `floor`, so that values far below it need not be
// met. Of values that scatter about one prediction that is their mean. Terms that are 0 everywhere
// get 0.
Coefficients fit_relative(std::span<const Observation> observations, double floor = 0);

double evaluate(const Coefficients& coefficients, const std::array<double, kTerms>& terms);

// Mean and largest absolute relative error; of no observations 0.
struct FitError {
  std::size_t count = 0;
  double mean = 0, largest = 0;
};
FitError error_of(const Coefficients& coefficients, std::span<const Observation> observations);

}  // namespace trainyard
