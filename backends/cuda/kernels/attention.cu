#include "backends/cuda/kernels/attention_mma.h"
#include "backends/cuda/kernels/attention_tiles.cuh"
#include "backends/cuda/kernels/bodies.h"
#include "backends/cuda/kernels/cudnn_attention.h"

namespace trainyard::cuda_kernels {
namespace {

// What a block has in shared memory.
struct ForwardTiles {
  float *queries, *keys, *values;
  Square weights;
  __device__ explicit ForwardTiles(int dim)
      : queries(reinterpret_cast<float*>(dynamic_shared_memory)),
        keys(queries + kTile * (dim + 1)),
        values(keys + kTile * (dim + 1)),
        weights{values + kTile * (dim + 1)} {}
};

// Attention of a tile of queries with running maximum and sum (Dao, arXiv 2307.08691, algorithm 1):
// key tiles pass by, the square of scores never exists.
template <class T>
__global__ void attention_tiles(AttentionArguments<T> g) {
  const HeadLayout& h = g.h;
  const int dim = static_cast<int>(h.dim);
  const TileThread t;
  const ForwardTiles tiles(dim);
  // The last tiles, which see the most keys, first.
  const TileOfSpan tile(gridDim.x - 1 - blockIdx.x, h.runs(), kTile);
  const std::int64_t head = blockIdx.y, batch = blockIdx.z;
  const TokenSpan span = g.queries(batch, tile.span);
  const QueryViews<T> own(g, span, head);
  tile_rows(own.query, tile.first).load(dim, tiles.queries);
  const DrawKey draw = g.draws.key();
  float sums[2][kDims] = {}, most[2] = {-INFINITY, -INFINITY}, total[2] = {};
  const std::int64_t end = tile.first + kTile < span.count ? tile.first + kTile : span.count;
  const auto add_keys = [&](const TokenSpan& keys, std::int64_t k) {
    const KeyViews<T> views(g, keys, head / h.group);
    __syncthreads();  // of the tile before, all have read
    tile_rows(views.key, k).load(dim, tiles.keys);
    tile_rows(views.value, k).load(dim, tiles.values);
    __syncthreads();
    float scores[2][2];
    tile_products(t, tiles.queries, tiles.keys, dim, scores);
    for (int i = 0; i < 2; ++i) {
      const std::int64_t at = tile.first + t.y + i * kSide;
      const std::int64_t query = at < span.count ? span.place + at : -1;
      const std::int64_t key = keys.place + k + t.x;
      const KeyBounds seen = g.bounds(query, keys);
      float highest = -INFINITY;
      for (int j = 0; j < 2; ++j) {
        const bool sees = seen.has(key + j * kSide);
        scores[i][j] = sees ? scores[i][j] * g.scale : -INFINITY;
        highest = fmaxf(highest, scores[i][j]);
      }
      const float before = most[i];
      most[i] = fmaxf(before, row_max(highest));
      const float base = most[i] == -INFINITY ? 0.0F : most[i];  // no key seen yet
      const float shrink = expf(before - base);
      float sum = 0;
      for (int j = 0; j < 2; ++j) {
        float weight = expf(scores[i][j] - base);
        sum += weight;
        if (g.drops && weight > 0) weight *= g.kept(draw, batch, head, query, key + j * kSide);
        tiles.weights.at(t.y + i * kSide, t.x + j * kSide) = weight;
      }
      total[i] = total[i] * shrink + row_sum(sum);
      for (int j = 0; j < kDims; ++j) sums[i][j] *= shrink;
    }
    __syncthreads();
    add_products<false>(t, tiles.weights, tiles.values, dim, sums);
  };
  g.each_key_tile(batch, span.place + tile.first, span.place + end, kTile, add_keys);
  for (int i = 0; i < 2; ++i) {
    const std::int64_t at = tile.first + t.y + i * kSide;
    for (int j = 0; j < kDims; ++j) sums[i][j] /= total[i];
    if (t.x == 0 && at < span.count)
      g.lse.at(batch * h.heads + head, span.row - batch * h.own() + at) = most[i] + logf(total[i]);
  }
  store_tile(t, sums, 1.0F, tile_rows(own.out, tile.first), dim);
}

}  // namespace

void attention_forward(const CudaLaunch& launch) {
  if (launch.state.cudnn_attention().run(launch)) return;
  with_storage(launch, launch.spec.dtype, [&](auto type) {
    using T = decltype(type);
    const auto g = attention_arguments<T>(launch);
    expect(launch, g.h.dim <= kMostDim, "has heads of more than 256 elements");
    if constexpr (!std::is_same_v<T, float>)
      if (suits_tensor_cores(g)) return attention_forward_mma(launch);
    Place place = attention_place(launch, g.h, false, kTile);
    place.shared_bytes = (3 * tile_words(g.h.dim) + kSquareWords) * sizeof(float);
    run_on(place, attention_tiles<T>, g);
  });
}

}  // namespace trainyard::cuda_kernels
