#include "backends/cpu/kernels/bodies.h"
#include "backends/cpu/kernels/dropout.h"
#include "backends/cpu/kernels/ids.h"
#include "backends/cpu/kernels/rows.h"

namespace trainyard::kernels {

void embedding_forward(const Launch& launch) {
  with_storage(launch, launch.spec.dtype, [&](auto type) {
    using T = decltype(type);
    const std::int64_t tokens = launch.spec.shape[0], n = launch.spec.shape[1];
    const Ids ids(launch, 0);
    const auto table = operand<const T>(launch, 1);
    const auto out = operand<T>(launch, 2, tokens, n);
    check(table.columns == n, "embedding table of {} columns for {}", table.columns, n);
    const std::int64_t first_id = launch.context.tensor_rank * table.rows;
    for (std::int64_t r = 0; r < tokens; ++r) {
      const std::int64_t row = ids.input(r) - first_id;
      if (row >= 0 && row < table.rows)
        std::copy_n(table.row(row), n, out.row(r));
      else
        std::fill_n(out.row(r), n, T(0));
    }
  });
}

// Rows are added in their order; threads share the columns.
void embedding_backward(const Launch& launch) {
  with_storage(launch, launch.spec.dtype, [&](auto type) {
    using T = decltype(type);
    using C = Compute<T>;
    const std::int64_t rows = launch.spec.shape[0], n = launch.spec.shape[1];
    const bool positions = launch.spec.flag == 1;
    const std::size_t first_operand = positions ? 0 : 1;
    const auto dout = operand<const T>(launch, first_operand, rows, n);
    const auto grads = operand<C>(launch, first_operand + 1);
    check(grads.columns == n, "gradient of {} columns for {}", grads.columns, n);
    std::vector<std::int64_t> row(static_cast<std::size_t>(rows));
    if (positions) {
      for (std::int64_t r = 0; r < rows; ++r) row[r] = token_row(launch.context, rows, r).place;
    } else {
      const Ids ids(launch, 0);
      const std::int64_t first_id = launch.context.tensor_rank * grads.rows;
      for (std::int64_t r = 0; r < rows; ++r) row[r] = ids.input(r) - first_id;
    }
    constexpr std::int64_t kColumns = 256;
    for_ranges(launch, n, kColumns, [&](std::int64_t first, std::int64_t last) {
      for (std::int64_t r = 0; r < rows; ++r) {
        if (row[r] < 0 || row[r] >= grads.rows) continue;
        Span<C>(grads.row(row[r]) + first, last - first) +=
            ConstSpan<T>(dout.row(r) + first, last - first).template cast<C>();
      }
    });
  });
}

}  // namespace trainyard::kernels
