#include "backends/cpu/kernels/bodies.h"
#include "backends/cpu/kernels/rows.h"

namespace trainyard::kernels {
namespace {

struct Keys {
  std::int64_t first, last;
};

// Keys a row of scores sees; rows are queries of one head after another.
Keys keys_of(const KernelSpec& spec, std::int64_t row) {
  const std::int64_t query = row % spec.shape[1], window = spec.shape[2];
  return {window > 0 ? std::max<std::int64_t>(0, query - window + 1) : 0, query + 1};
}

}  // namespace

void softmax_forward(const Launch& launch) {
  with_storage(launch, launch.spec.dtype, [&](auto type) {
    using T = decltype(type);
    using C = Compute<T>;
    const std::int64_t rows = launch.spec.shape[0], columns = launch.spec.shape[1];
    const auto scores = operand<const T>(launch, 0, rows, columns);
    const auto weights = operand<T>(launch, 1, rows, columns);
    const C scale = static_cast<C>(launch.spec.parameter);
    for_ranges(launch, rows, row_grain(columns), [&](std::int64_t from, std::int64_t to) {
      InRow<T> in(columns);
      OutRow<T> out(columns);
      for (std::int64_t r = from; r < to; ++r) {
        const auto [first, last] = keys_of(launch.spec, r);
        const C* x = in(scores.row(r)) + first;
        C* y = out.begin(weights.row(r));
        std::fill(y, y + first, C{0});
        std::fill(y + last, y + columns, C{0});
        const std::int64_t n = last - first;
        C* seen = y + first;
        const C most = largest(x, n);
        for (std::int64_t j = 0; j < n; ++j) seen[j] = (x[j] - most) * scale;
        exp_each(seen, n);
        const C inverse = 1 / sum_of<C>(n, [&](auto j) { return seen[j]; });
        for (std::int64_t j = 0; j < n; ++j) seen[j] *= inverse;
        out.end(weights.row(r));
      }
    });
  });
}

void softmax_backward(const Launch& launch) {
  with_storage(launch, launch.spec.dtype, [&](auto type) {
    using T = decltype(type);
    using C = Compute<T>;
    const std::int64_t rows = launch.spec.shape[0], columns = launch.spec.shape[1];
    const auto weights = operand<const T>(launch, 0, rows, columns);
    const auto grads = operand<T>(launch, 1, rows, columns);
    const C scale = static_cast<C>(launch.spec.parameter);
    for_ranges(launch, rows, row_grain(columns), [&](std::int64_t from, std::int64_t to) {
      InRow<T> in(columns), in_grad(columns);
      OutRow<T> out(columns);
      for (std::int64_t r = from; r < to; ++r) {
        const C* p = in(weights.row(r));
        const C* dp = in_grad(grads.row(r));
        const C mean = sum_of<C>(columns, [&](auto j) { return p[j] * dp[j]; });
        C* ds = out.begin(grads.row(r));
        for (std::int64_t j = 0; j < columns; ++j) ds[j] = scale * p[j] * (dp[j] - mean);
        out.end(grads.row(r));
      }
    });
  });
}

}  // namespace trainyard::kernels
