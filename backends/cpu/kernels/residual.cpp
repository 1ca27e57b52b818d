#include "backends/cpu/kernels/bodies.h"
#include "backends/cpu/kernels/dropout.h"
#include "backends/cpu/kernels/rows.h"

namespace trainyard::kernels {

void residual_forward(const Launch& launch) {
  with_storage(launch, launch.spec.dtype, [&](auto type) {
    using T = decltype(type);
    using C = Compute<T>;
    const std::int64_t rows = launch.spec.shape[0], n = launch.spec.shape[1];
    const bool biased = (launch.spec.flag & 1) != 0;
    const auto x = operand<const T>(launch, 0, rows, n);
    const auto residual = operand<const T>(launch, 1, rows, n);
    const auto y = operand<T>(launch, 2, rows, n);
    std::vector<C> bias(static_cast<std::size_t>(n));
    if (biased) load(operand<const T>(launch, 3, 1, n).data, n, bias.data());
    const DropoutDraws draws(launch);
    const bool drops = launch.spec.parameter > 0;
    const auto mask =
        drops ? operand<std::uint8_t>(launch, biased ? 4 : 3, rows, n) : View<std::uint8_t>{};
    const C scale = static_cast<C>(draws.scale());
    for_ranges(launch, rows, row_grain(n), [&](std::int64_t first, std::int64_t last) {
      InRow<T> in(n), in_residual(n);
      OutRow<T> out(n);
      for (std::int64_t r = first; r < last; ++r) {
        const C* value = in(x.row(r));
        const C* before = in_residual(residual.row(r));
        C* to = out.begin(y.row(r));
        if (drops) {
          const TokenRow at = token_row(launch.context, rows, r);
          const std::uint8_t* keep = mask.row(r);
          draws.keep(at.sample, at.place, 0, {mask.row(r), static_cast<std::size_t>(n)});
          for (std::int64_t j = 0; j < n; ++j)
            to[j] = before[j] + (keep[j] != 0 ? (value[j] + bias[j]) * scale : C{0});
        } else {
          for (std::int64_t j = 0; j < n; ++j) to[j] = before[j] + (value[j] + bias[j]);
        }
        out.end(y.row(r));
      }
    });
  });
}

void residual_backward(const Launch& launch) {
  with_storage(launch, launch.spec.dtype, [&](auto type) {
    using T = decltype(type);
    using C = Compute<T>;
    const std::int64_t rows = launch.spec.shape[0], n = launch.spec.shape[1];
    const bool biased = (launch.spec.flag & 1) != 0, drops = launch.spec.parameter > 0;
    auto dx = operand<const T>(launch, 0, rows, n);
    if (drops) {
      const View<const T> dout = dx;
      const auto mask = operand<const std::uint8_t>(launch, 1, rows, n);
      const auto to = operand<T>(launch, 2, rows, n);
      apply_mask<T>(launch, mask, dout, to);
      dx = {to.data, rows, n, to.stride};
    }
    if (biased) add_column_sums(launch, dx, operand<C>(launch, drops ? 3 : 1, 1, n).data);
  });
}

}  // namespace trainyard::kernels
