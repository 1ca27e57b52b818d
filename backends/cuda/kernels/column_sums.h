#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace trainyard::cuda_kernels {

// Sums over rows without atomics: blocks write the sums of a part of the rows each to scratch
// memory, then the parts are added in their order. The parts depend on the number of rows alone,
// so bits are the same on every GPU.
struct RowParts {
  explicit RowParts(std::int64_t rows)
      : rows_each(std::max<std::int64_t>(kFewest, (rows + kMost - 1) / kMost)),
        count(static_cast<int>(std::max<std::int64_t>(1, (rows + rows_each - 1) / rows_each))) {}
  static constexpr std::int64_t kFewest = 32, kMost = 64;
  std::int64_t rows_each;
  int count;
};

inline std::size_t column_sums_bytes(std::int64_t rows, std::int64_t columns) {
  return static_cast<std::size_t>(RowParts(rows).count * columns) * sizeof(float);
}

}  // namespace trainyard::cuda_kernels
