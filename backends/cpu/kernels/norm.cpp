#include <cmath>

#include "backends/cpu/kernels/bodies.h"
#include "backends/cpu/kernels/rows.h"
#include "core/model/model.h"

namespace trainyard::kernels {
namespace {

bool is_layernorm(const Launch& launch) {
  return launch.spec.flag == static_cast<std::uint8_t>(Norm::layernorm);
}

// gamma, then beta for LayerNorm, in arithmetic type.
template <class T>
std::vector<Compute<T>> scales(const Launch& launch, std::size_t index, std::int64_t columns) {
  const std::int64_t n = is_layernorm(launch) ? 2 * columns : columns;
  std::vector<Compute<T>> values(static_cast<std::size_t>(n));
  load(operand<const T>(launch, index, 1, n).data, n, values.data());
  return values;
}

// dgamma += sum of dy * xhat, and dbeta += sum of dy, over rows in their order.
template <class T>
void scale_gradients(const Launch& launch, View<const T> dy, View<const T> x,
                     View<const Compute<T>> stats) {
  using C = Compute<T>;
  const bool centred = is_layernorm(launch);
  const std::int64_t columns = x.columns;
  C* grads = operand<C>(launch, 5, 1, centred ? 2 * columns : columns).data;
  constexpr std::int64_t kColumns = 256;
  for_ranges(launch, columns, kColumns, [&](std::int64_t first, std::int64_t last) {
    const std::int64_t n = last - first;
    InRow<T> in(n), in_grad(n);
    C gamma[kColumns] = {}, beta[kColumns] = {};
    for (std::int64_t r = 0; r < x.rows; ++r) {
      const C* value = in(x.row(r) + first);
      const C* grad = in_grad(dy.row(r) + first);
      const C mean = stats.at(r, 0), inverse = stats.at(r, 1);
      for (std::int64_t j = 0; j < n; ++j) {
        gamma[j] += grad[j] * (value[j] - mean) * inverse;
        beta[j] += grad[j];
      }
    }
    for (std::int64_t j = 0; j < n; ++j) grads[first + j] += gamma[j];
    for (std::int64_t j = 0; centred && j < n; ++j) grads[columns + first + j] += beta[j];
  });
}

}  // namespace

// LayerNorm (arXiv 1607.06450): (x - mean) / sqrt(variance + eps) * gamma + beta. RMSNorm (arXiv
// 1910.07467): x / sqrt(mean square + eps) * gamma; its mean is saved as 0.
void norm_forward(const Launch& launch) {
  with_storage(launch, launch.spec.dtype, [&](auto type) {
    using T = decltype(type);
    using C = Compute<T>;
    const std::int64_t rows = launch.spec.shape[0], n = launch.spec.shape[1];
    const auto x = operand<const T>(launch, 0, rows, n);
    const auto gamma = scales<T>(launch, 1, n);
    const auto y = operand<T>(launch, 2, rows, n);
    const auto stats = operand<C>(launch, 3, rows, 2);
    const bool centred = is_layernorm(launch);
    const C epsilon = static_cast<C>(launch.context.norm_epsilon);
    for_ranges(launch, rows, row_grain(n), [&](std::int64_t first, std::int64_t last) {
      InRow<T> in(n);
      OutRow<T> out(n);
      for (std::int64_t r = first; r < last; ++r) {
        const C* value = in(x.row(r));
        const C count = static_cast<C>(n);
        const C mean = centred ? sum_of<C>(n, [&](auto j) { return value[j]; }) / count : C{0};
        const C variance = sum_of<C>(n,
                                     [&](auto j) {
                                       const C d = value[j] - mean;
                                       return d * d;
                                     }) /
                           count;
        const C inverse = 1 / std::sqrt(variance + epsilon);
        C* to = out.begin(y.row(r));
        for (std::int64_t j = 0; j < n; ++j)
          to[j] = (value[j] - mean) * inverse * gamma[j] + (centred ? gamma[n + j] : C{0});
        out.end(y.row(r));
        stats.at(r, 0) = mean;
        stats.at(r, 1) = inverse;
      }
    });
  });
}

// dx = (g - mean(g) - xhat * mean(g * xhat)) / deviation with g = dy * gamma; RMSNorm has no
// mean(g).
void norm_backward(const Launch& launch) {
  with_storage(launch, launch.spec.dtype, [&](auto type) {
    using T = decltype(type);
    using C = Compute<T>;
    const std::int64_t rows = launch.spec.shape[0], n = launch.spec.shape[1];
    const auto dy = operand<const T>(launch, 0, rows, n), x = operand<const T>(launch, 1, rows, n);
    const auto stats = operand<const C>(launch, 2, rows, 2);
    const auto gamma = scales<T>(launch, 3, n);
    const auto dx = operand<T>(launch, 4, rows, n);
    scale_gradients<T>(launch, dy, x, stats);
    const bool adds = has_operand(launch, 6), centred = is_layernorm(launch);
    const auto residual = adds ? operand<const T>(launch, 6, rows, n) : View<const T>{};
    for_ranges(launch, rows, row_grain(n), [&](std::int64_t first, std::int64_t last) {
      InRow<T> in(n), in_grad(n), in_residual(n);
      OutRow<T> out(n);
      std::vector<C> scaled(static_cast<std::size_t>(n)), normed(scaled.size());
      for (std::int64_t r = first; r < last; ++r) {
        const C* value = in(x.row(r));
        const C* grad = in_grad(dy.row(r));
        const C mean = stats.at(r, 0), inverse = stats.at(r, 1), count = static_cast<C>(n);
        for (std::int64_t j = 0; j < n; ++j) {
          scaled[j] = grad[j] * gamma[j];
          normed[j] = (value[j] - mean) * inverse;
        }
        const C shift = centred ? sum_of<C>(n, [&](auto j) { return scaled[j]; }) / count : C{0};
        const C along = sum_of<C>(n, [&](auto j) { return scaled[j] * normed[j]; }) / count;
        const C* before = adds ? in_residual(residual.row(r)) : nullptr;
        C* to = out.begin(dx.row(r));
        for (std::int64_t j = 0; j < n; ++j)
          to[j] = inverse * (scaled[j] - shift - normed[j] * along) + (adds ? before[j] : C{0});
        out.end(dx.row(r));
      }
    });
  });
}

}  // namespace trainyard::kernels
