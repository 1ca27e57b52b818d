#include "backends/cuda/kernels/device.cuh"
#include "backends/cuda/kernels/group_products.h"

namespace trainyard::cuda_kernels {
namespace {

// A block has a tile of kProductTile keys by kProductTile elements of a head, a thread 2 by 2 of
// it: (y, x) and kProductTile / 2 further. Its steps are of kDepth queries.
constexpr int kProductTile = 32, kDepth = 16, kProductSide = 16;

// Lanes of a half warp read neighbouring words of `right` and the same word of `left`: no bank
// conflicts.
template <class T>
__global__ void group_product_tiles(GroupProducts g) {
  __shared__ float left[kDepth][kProductTile + 1], right[kDepth][kProductTile + 1];
  const HeadLayout& h = g.heads;
  const auto* const square = static_cast<const T*>(g.square);
  const auto* const from = static_cast<const T*>(g.left);
  const std::int64_t b = blockIdx.z / h.kv_heads, kv = blockIdx.z % h.kv_heads;
  const std::int64_t key0 = std::int64_t{blockIdx.x} * kProductTile;
  const std::int64_t column0 = std::int64_t{blockIdx.y} * kProductTile;
  const int x = static_cast<int>(threadIdx.x), y = static_cast<int>(threadIdx.y);
  float sums[2][2] = {};
  for (std::int64_t head = kv * h.group; head < (kv + 1) * h.group; ++head) {
    const std::int64_t row0 = (b * h.heads + head) * h.sequence;
    for (std::int64_t q0 = 0; q0 < h.sequence; q0 += kDepth) {
      const std::int64_t q = q0 + y;
      for (int i = x; i < kProductTile; i += kProductSide) {
        const bool in = q < h.sequence;
        left[y][i] = in && key0 + i < h.sequence
                         ? to_float(square[(row0 + q) * g.square_stride + key0 + i])
                         : 0.0F;
        right[y][i] =
            in && column0 + i < h.dim
                ? to_float(from[(b * h.sequence + q) * g.left_stride + head * h.dim + column0 + i])
                : 0.0F;
      }
      __syncthreads();
      for (int d = 0; d < kDepth; ++d)
        for (int i = 0; i < 2; ++i)
          for (int j = 0; j < 2; ++j)
            sums[i][j] += left[d][y + i * kProductSide] * right[d][x + j * kProductSide];
      __syncthreads();
    }
  }
  for (int i = 0; i < 2; ++i)
    for (int j = 0; j < 2; ++j) {
      const std::int64_t key = key0 + y + i * kProductSide, column = column0 + x + j * kProductSide;
      if (key < h.sequence && column < h.dim)
        static_cast<T*>(g.to)[(b * h.sequence + key) * g.to_stride + kv * h.dim + column] =
            from_float<T>(sums[i][j]);
    }
}

}  // namespace

void group_products(const CudaLaunch& launch, const GroupProducts& g) {
  with_storage(launch, g.dtype, [&](auto type) {
    using T = decltype(type);
    const auto tiles = [](std::int64_t n) {
      return static_cast<unsigned>((n + kProductTile - 1) / kProductTile);
    };
    const Place place{dim3(tiles(g.heads.sequence), tiles(g.heads.dim),
                           static_cast<unsigned>(g.heads.batch * g.heads.kv_heads)),
                      dim3(kProductSide, kProductSide), launch.stream, 0};
    run_on(place, group_product_tiles<T>, g);
  });
}

}  // namespace trainyard::cuda_kernels
