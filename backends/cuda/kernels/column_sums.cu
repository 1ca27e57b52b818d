#include "backends/cuda/kernels/bodies.h"
#include "backends/cuda/kernels/column_sums.cuh"
#include "backends/cuda/kernels/column_sums.h"

namespace trainyard::cuda_kernels {
namespace {

template <class T>
struct SumArguments {
  View<const T> from;
  float* partial;
  std::int64_t rows_each;
  bool packed;
};

template <class T>
__global__ void sum_columns(SumArguments<T> g) {
  const ColumnTile<T> tile(g.from.columns);
  float sums[kPack<T>] = {};
  const std::int64_t first = blockIdx.y * g.rows_each;
  const std::int64_t end = first + g.rows_each < g.from.rows ? first + g.rows_each : g.from.rows;
  for (std::int64_t r = first + threadIdx.y; r < end; r += kTileRows) {
    const Pack<T> x = load<T>(g.from.row(r) + tile.column, tile.count, g.packed);
    for (int j = 0; j < kPack<T>; ++j) sums[j] += x.v[j];
  }
  tile.write(sums, g.partial + std::int64_t{blockIdx.y} * g.from.columns);
}

__global__ void add_partials(const float* partial, PartialSums g) {
  const std::int64_t column = thread_number();
  if (column >= g.columns) return;
  float sum = 0;
  for (int i = 0; i < g.parts; ++i) sum += partial[i * g.columns + column];
  g.to[column] += sum;
}

}  // namespace

void add_partial_sums(const CudaLaunch& launch, const float* partial, const PartialSums& sums) {
  run_on(threads_for(launch, sums.columns), add_partials, partial, sums);
}

void add_column_sums(const CudaLaunch& launch, const Matrix& from, float* to) {
  with_storage(launch, from.dtype, [&](auto type) {
    using T = decltype(type);
    const RowParts parts(from.rows);
    auto* const partial =
        static_cast<float*>(launch.state.scratch(column_sums_bytes(from.rows, from.columns)));
    const SumArguments<T> g{view_of<const T>(from), partial, parts.rows_each,
                            has_packs(view_of<const T>(from))};
    run_on(column_place<T>(launch, from.columns, parts), sum_columns<T>, g);
    add_partial_sums(launch, partial, {to, from.columns, parts.count});
  });
}

}  // namespace trainyard::cuda_kernels
