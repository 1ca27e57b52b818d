#pragma once
#include "backends/cuda/kernels/column_sums.h"
#include "backends/cuda/kernels/device.cuh"

namespace trainyard::cuda_kernels {

// A block of 32 packs by kTileRows rows.
inline constexpr int kTileRows = 8;

template <class T>
Place column_place(const CudaLaunch& launch, std::int64_t columns, const RowParts& parts) {
  const std::int64_t packs = (columns + kPack<T> - 1) / kPack<T>;
  return {
      dim3(static_cast<unsigned>((packs + kWarp - 1) / kWarp), static_cast<unsigned>(parts.count)),
      dim3(kWarp, kTileRows), launch.stream, 0};
}

// The pack of columns that a thread of such a block has.
template <class T>
struct ColumnTile {
  std::int64_t column, count;

  __device__ explicit ColumnTile(std::int64_t columns)
      : column((std::int64_t{blockIdx.x} * kWarp + threadIdx.x) * kPack<T>),
        count(columns - column) {}

  // Adds the rows' sums in their order and stores them at `to`. Lanes of a warp read and write
  // neighbouring words of `rows`: no bank conflicts.
  __device__ void write(const float (&sums)[kPack<T>], float* to) const {
    __shared__ float rows[kTileRows][kPack<T>][kWarp];
    __syncthreads();  // of an earlier write, all have read
    for (int j = 0; j < kPack<T>; ++j) rows[threadIdx.y][j][threadIdx.x] = sums[j];
    __syncthreads();
    for (int j = static_cast<int>(threadIdx.y); j < kPack<T>; j += kTileRows) {
      float sum = 0;
      for (int r = 0; r < kTileRows; ++r) sum += rows[r][j][threadIdx.x];
      if (j < count) to[column + j] = sum;
    }
  }
};

// Sums of `parts` parts of rows, each of `columns` columns, to be added to `to`.
struct PartialSums {
  float* to;
  std::int64_t columns;
  int parts;
};
void add_partial_sums(const CudaLaunch& launch, const float* partial, const PartialSums& sums);

}  // namespace trainyard::cuda_kernels
