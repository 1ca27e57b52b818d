#pragma once
#include "backends/cuda/kernels/attention.cuh"

namespace trainyard::cuda_kernels {

// Parts of the portable attention kernels: a block of kSide by kSide threads has tiles of kTile
// queries and kTile keys. Thread (x, y) has queries y and y + kSide, and keys, or elements of a
// head, x, x + kSide and so on. All factors are fp32 in shared memory, in rows one word longer than
// the head, so that threads x that read one column of kTile rows read kSide different banks.
inline constexpr int kSide = 16, kTile = 32, kMostDim = 256, kDims = kMostDim / kSide;

struct TileThread {
  int x = static_cast<int>(threadIdx.x) % kSide, y = static_cast<int>(threadIdx.x) / kSide;
};

// Sum over x of one row y: those 16 threads are half a warp.
__device__ inline float row_sum(float v) {
  for (int bits = kSide / 2; bits > 0; bits /= 2) v += __shfl_xor_sync(kAllLanes, v, bits);
  return v;
}
__device__ inline float row_max(float v) {
  for (int bits = kSide / 2; bits > 0; bits /= 2) v = fmaxf(v, __shfl_xor_sync(kAllLanes, v, bits));
  return v;
}

// A tile of rows in global memory.
template <class T>
struct TileRows {
  const T* head;
  std::int64_t stride, first, rows;  // `rows` of the span

  __device__ void load(int dim, float* to) const {
    for (int i = static_cast<int>(threadIdx.x); i < kTile * dim; i += kSide * kSide) {
      const int r = i / dim, c = i % dim;
      to[r * (dim + 1) + c] = first + r < rows ? to_float(head[(first + r) * stride + c]) : 0.0F;
    }
  }
};

template <class T>
__device__ TileRows<std::remove_const_t<T>> tile_rows(const View<T>& head, std::int64_t first) {
  return {head.data, head.stride, first, head.rows};
}

// sums[i][j] = dot product of rows y + i kSide of `left` and x + j kSide of `right`.
__device__ inline void tile_products(const TileThread& t, const float* left, const float* right,
                                     int dim, float (&sums)[2][2]) {
  const int pitch = dim + 1;
  for (int i = 0; i < 2; ++i)
    for (int j = 0; j < 2; ++j) sums[i][j] = 0;
  for (int d = 0; d < dim; ++d)
    for (int i = 0; i < 2; ++i)
      for (int j = 0; j < 2; ++j)
        sums[i][j] += left[(t.y + i * kSide) * pitch + d] * right[(t.x + j * kSide) * pitch + d];
}

// A square of weights in shared memory, a word longer than a tile for reads along both ways.
struct Square {
  float* data;
  __device__ float& at(int i, int j) const { return data[i * (kTile + 1) + j]; }
};
inline constexpr int kSquareWords = kTile * (kTile + 1);

inline std::size_t tile_words(std::int64_t dim) {
  return static_cast<std::size_t>(kTile * (dim + 1));
}

// sums[i][j] += sum over r of square(y + i kSide, r) * rows(r, x + j kSide); by columns of the
// square with `transposed`.
template <bool kTransposed>
__device__ void add_products(const TileThread& t, const Square& square, const float* rows, int dim,
                             float (&sums)[2][kDims]) {
  const int pitch = dim + 1;
  for (int r = 0; r < kTile; ++r)
    for (int i = 0; i < 2; ++i) {
      const int at = t.y + i * kSide;
      const float weight = kTransposed ? square.at(r, at) : square.at(at, r);
      for (int j = 0; j < kDims; ++j)
        if (t.x + j * kSide < dim) sums[i][j] += weight * rows[r * pitch + t.x + j * kSide];
    }
}

// Stores factor * sums to rows first + y and first + y + kSide of a head.
template <class T>
__device__ void store_tile(const TileThread& t, const float (&sums)[2][kDims], float factor,
                           const TileRows<T>& to, int dim) {
  for (int i = 0; i < 2; ++i) {
    const std::int64_t row = to.first + t.y + i * kSide;
    if (row >= to.rows) continue;
    T* const at = const_cast<T*>(to.head) + row * to.stride;
    for (int j = 0; j < kDims; ++j)
      if (t.x + j * kSide < dim) at[t.x + j * kSide] = from_float<T>(factor * sums[i][j]);
  }
}

}  // namespace trainyard::cuda_kernels
