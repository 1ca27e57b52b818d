#include <cstring>

#include "backends/cpu/kernels/bodies.h"
#include "backends/cpu/kernels/dropout.h"
#include "backends/cpu/kernels/rows.h"

namespace trainyard::kernels {

void add(const Launch& launch) {
  with_storage(launch, launch.spec.dtype, [&](auto type) {
    using T = decltype(type);
    using C = Compute<T>;
    const std::int64_t rows = launch.spec.shape[0], n = launch.spec.shape[1];
    const bool by_place = launch.spec.flag == 1;
    const auto a = operand<T>(launch, 0, rows, n);
    const auto b = by_place ? operand<const T>(launch, 1) : operand<const T>(launch, 1, rows, n);
    check(b.columns == n && (!by_place || b.rows >= launch.context.sequence),
          "adding [{}, {}] to rows of {}", b.rows, b.columns, n);
    const auto add_to = [](T* sum, const T* term, std::int64_t elements) {
      Span<T> to(sum, elements);
      to = (to.template cast<C>() + ConstSpan<T>(term, elements).template cast<C>())
               .template cast<T>();
    };
    // The sums of a flat buffer come as a column: a row an element would be a call an element.
    if (!by_place && a.stride == n && b.stride == n)
      return for_ranges(launch, rows * n, row_grain(1), [&](std::int64_t first, std::int64_t last) {
        add_to(a.data + first, b.data + first, last - first);
      });
    for_ranges(launch, rows, row_grain(n), [&](std::int64_t first, std::int64_t last) {
      for (std::int64_t r = first; r < last; ++r) {
        const std::int64_t from = by_place ? token_row(launch.context, rows, r).place : r;
        add_to(a.row(r), b.row(from), n);
      }
    });
  });
}

void copy_columns(const Launch& launch) {
  with_storage(launch, launch.spec.dtype, [&](auto type) {
    using T = decltype(type);
    const auto& s = launch.spec.shape;
    const std::int64_t rows = s[0], n = s[1], first = s[2];
    const bool back = launch.spec.flag == 1;
    const auto wide = operand<T>(launch, back ? 1 : 0);
    const auto narrow = operand<T>(launch, back ? 0 : 1, rows, n);
    check(wide.rows == rows && wide.columns >= first + n, "columns {} to {} of [{}, {}]", first,
          first + n, wide.rows, wide.columns);
    for_ranges(launch, rows, row_grain(n), [&](std::int64_t from, std::int64_t to) {
      for (std::int64_t r = from; r < to; ++r) {
        T* const columns = wide.row(r) + first;
        std::copy_n(back ? narrow.row(r) : columns, n, back ? columns : narrow.row(r));
      }
    });
  });
}

void zero(const Launch& launch) {
  check(launch.operands.size() == 1, "zero has {} operands", launch.operands.size());
  const Matrix& m = launch.operands[0];
  check(m.rows * m.columns == launch.spec.shape[0], "zero of {} elements on [{}, {}]",
        launch.spec.shape[0], m.rows, m.columns);
  const std::int64_t element =
      launch.in_double && m.dtype != DType::int32 && m.dtype != DType::uint8
          ? std::int64_t{sizeof(double)}
          : size_of(m.dtype);
  for (std::int64_t r = 0; r < m.rows; ++r)
    std::memset(static_cast<std::byte*>(m.data) + r * m.row_stride * element, 0,
                static_cast<std::size_t>(m.columns * element));
}

}  // namespace trainyard::kernels
