#pragma once
#include <cmath>
#include <vector>

#include "backends/cpu/kernels/rows.h"

namespace trainyard {

// Elements an optimizer kernel's range works on.
inline constexpr std::int64_t kOptimizerGrain = 1 << 15;

// Coefficients of Adam's moments (Kingma and Ba, arXiv 1412.6980, algorithm 1).
template <class C>
struct Moments {
  explicit Moments(const KernelContext& c)
      : scale(static_cast<C>(c.gradient_scale)),
        beta1(static_cast<C>(c.beta1)),
        beta2(static_cast<C>(c.beta2)),
        keep1(static_cast<C>(1 - c.beta1)),
        keep2(static_cast<C>(1 - c.beta2)),
        correct1(static_cast<C>(1 / (1 - std::pow(c.beta1, static_cast<double>(c.update))))),
        correct2(static_cast<C>(1 / (1 - std::pow(c.beta2, static_cast<double>(c.update))))),
        epsilon(static_cast<C>(c.epsilon)) {}

  // Updates m and v with gradient g (unscaled) and returns mhat / (sqrt(vhat) + eps).
  C direction(C g, C& m, C& v) const {
    m = beta1 * m + keep1 * g;
    v = beta2 * v + keep2 * g * g;
    return m * correct1 / (std::sqrt(v * correct2) + epsilon);
  }

  C scale, beta1, beta2, keep1, keep2, correct1, correct2, epsilon;
};

// The tensors of a flat operand of `elements`; one with all of them if the context names none.
inline std::vector<FlatTensor> tensors_of(const KernelContext& context, std::int64_t elements) {
  if (context.tensors.empty()) return {FlatTensor{.first = 0, .elements = elements}};
  std::vector<FlatTensor> tensors(context.tensors.begin(), context.tensors.end());
  for (const FlatTensor& t : tensors)
    check(t.first >= 0 && t.elements >= 0 && t.first + t.elements <= elements,
          "a tensor at {} of {} elements in a buffer of {}", t.first, t.elements, elements);
  return tensors;
}

// Sum of term(i) for i in [0, n): in double, over blocks of fixed size.
template <class Term>
double blocked_sum(const Launch& launch, std::int64_t n, Term term) {
  std::vector<double> sums(static_cast<std::size_t>((n + kOptimizerGrain - 1) / kOptimizerGrain));
  for_ranges(launch, n, kOptimizerGrain, [&](std::int64_t first, std::int64_t last) {
    sums[first / kOptimizerGrain] =
        sum_of<double>(last - first, [&](auto i) { return static_cast<double>(term(first + i)); });
  });
  double total = 0;
  for (const double sum : sums) total += sum;
  return total;
}

// Writes the first `n` master weights, rounded to the storage type of training, to operand `index`
// if there is one: in fp32 training the parameters are the master weights.
template <class C>
void round_weights(const Launch& launch, const C* master, std::size_t index, std::int64_t n) {
  if (!has_operand(launch, index)) return;
  with_storage(launch, launch.operands[index].dtype, [&](auto type) {
    using T = decltype(type);
    T* to = operand<T>(launch, index, 1, n).data;
    for_ranges(launch, n, kOptimizerGrain, [&](std::int64_t first, std::int64_t last) {
      Span<T>(to + first, last - first) =
          ConstSpan<C>(master + first, last - first).template cast<T>();
    });
  });
}

}  // namespace trainyard
