#include "backends/cuda/kernels/attention_mma.h"
#include "backends/cuda/kernels/attention_tiles.cuh"
#include "backends/cuda/kernels/bodies.h"
#include "backends/cuda/kernels/cudnn_attention.h"

namespace trainyard::cuda_kernels {
namespace {

// Scores are computed again tile by tile from the saved log-sum-exp (Dao, arXiv 2307.08691,
// algorithm 2), once by blocks that have queries and once by blocks that have keys: each sums its
// gradients alone, in a fixed order, where one pass would need atomic sums.
template <class T>
struct BackwardTile {
  const AttentionArguments<T>& g;
  const TileThread t;
  const int dim;
  float *queries, *douts, *keys, *values;
  const Square weights, dscores;
  const DrawKey draw;

  __device__ explicit BackwardTile(const AttentionArguments<T>& arguments)
      : g(arguments),
        t(),
        dim(static_cast<int>(g.h.dim)),
        queries(reinterpret_cast<float*>(dynamic_shared_memory)),
        douts(queries + kTile * (dim + 1)),
        keys(douts + kTile * (dim + 1)),
        values(keys + kTile * (dim + 1)),
        weights{values + kTile * (dim + 1)},
        dscores{weights.data + kSquareWords},
        draw(g.draws.key()) {}

  __device__ void load_queries(const QueryViews<T>& of, std::int64_t first) const {
    tile_rows(of.query, first).load(dim, queries);
    tile_rows(of.dout, first).load(dim, douts);
  }
  __device__ void load_keys(const KeyViews<T>& of, std::int64_t first) const {
    tile_rows(of.key, first).load(dim, keys);
    tile_rows(of.value, first).load(dim, values);
  }
  // Tokens from `q` and `k` on of their spans.
  struct At {
    std::int64_t batch, head;
    TokenSpan queries, keys;
    std::int64_t q, k;
  };

  // The tile's weights after dropout, and the gradients of its scores.
  __device__ void weigh(const At& at) const {
    float scores[2][2], dweights[2][2];
    tile_products(t, queries, keys, dim, scores);
    tile_products(t, douts, values, dim, dweights);
    for (int i = 0; i < 2; ++i) {
      const std::int64_t token = at.q + t.y + i * kSide;
      const std::int64_t row = at.batch * g.h.heads + at.head;
      const std::int64_t own = at.queries.row - at.batch * g.h.own() + token;
      const bool in = token < at.queries.count;
      const std::int64_t query = in ? at.queries.place + token : -1;
      const KeyBounds seen = g.bounds(query, at.keys);
      const float lse = in ? g.lse.at(row, own) : 0.0F;
      const float delta = in ? g.delta[row * g.h.own() + own] : 0.0F;
      for (int j = 0; j < 2; ++j) {
        const std::int64_t key = at.keys.place + at.k + t.x + j * kSide;
        const bool sees = seen.has(key);
        const float weight = sees ? expf(scores[i][j] * g.scale - lse) : 0.0F;
        const float kept = g.drops && sees ? g.kept(draw, at.batch, at.head, query, key) : 1.0F;
        weights.at(t.y + i * kSide, t.x + j * kSide) = weight * kept;
        dscores.at(t.y + i * kSide, t.x + j * kSide) = weight * (kept * dweights[i][j] - delta);
      }
    }
  }
};

template <class T>
__global__ void attention_dq_tiles(AttentionArguments<T> g) {
  const BackwardTile<T> tile(g);
  const HeadLayout& h = g.h;
  const TileOfSpan of(gridDim.x - 1 - blockIdx.x, h.runs(), kTile);
  const std::int64_t head = blockIdx.y, batch = blockIdx.z;
  const TokenSpan span = g.queries(batch, of.span);
  const QueryViews<T> own(g, span, head);
  tile.load_queries(own, of.first);
  float sums[2][kDims] = {};
  const std::int64_t end = of.first + kTile < span.count ? of.first + kTile : span.count;
  const auto add_keys = [&](const TokenSpan& keys, std::int64_t k) {
    __syncthreads();  // of the tile before, all have read
    tile.load_keys(KeyViews<T>(g, keys, head / h.group), k);
    __syncthreads();
    tile.weigh({batch, head, span, keys, of.first, k});
    __syncthreads();
    add_products<false>(tile.t, tile.dscores, tile.keys, tile.dim, sums);
  };
  g.each_key_tile(batch, span.place + of.first, span.place + end, kTile, add_keys);
  store_tile(tile.t, sums, g.scale, tile_rows(own.dquery, of.first), tile.dim);
}

template <class T>
__global__ void attention_dkv_tiles(AttentionArguments<T> g) {
  const BackwardTile<T> tile(g);
  const HeadLayout& h = g.h;
  const TileOfSpan of(blockIdx.x, h.pieces(), kTile);
  const std::int64_t kv = blockIdx.y, batch = blockIdx.z;
  const TokenSpan keys = g.keys(batch, of.span);
  const KeyViews<T> own(g, keys, kv);
  tile.load_keys(own, of.first);
  float dk[2][kDims] = {}, dv[2][kDims] = {};
  for (std::int64_t head = kv * h.group; head < (kv + 1) * h.group; ++head) {
    for (std::int64_t run = 0; run < h.runs(); ++run) {
      const TokenSpan span = g.queries(batch, run);
      const auto range = g.seeing(span, keys.place + of.first, kTile, kTile);
      for (std::int64_t q = range.first; q < range.end; q += kTile) {
        __syncthreads();
        tile.load_queries(QueryViews<T>(g, span, head), q);
        __syncthreads();
        tile.weigh({batch, head, span, keys, q, of.first});
        __syncthreads();
        add_products<true>(tile.t, tile.weights, tile.douts, tile.dim, dv);
        add_products<true>(tile.t, tile.dscores, tile.queries, tile.dim, dk);
      }
    }
  }
  store_tile(tile.t, dk, g.scale, tile_rows(own.dkey, of.first), tile.dim);
  store_tile(tile.t, dv, 1.0F, tile_rows(own.dvalue, of.first), tile.dim);
}

// delta = sum over a head of out * dout: a warp a head of a row.
template <class T>
__global__ void attention_deltas(AttentionArguments<T> g) {
  const HeadLayout& h = g.h;
  const std::int64_t number = thread_number() / kWarp, lane = threadIdx.x % kWarp;
  if (number >= h.batch * h.own() * h.heads) return;
  const std::int64_t row = number / h.heads, head = number % h.heads;
  float sum = 0;
  for (std::int64_t c = lane; c < h.dim; c += kWarp)
    sum += to_float(g.out.at(row, head * h.dim + c)) * to_float(g.dout.at(row, head * h.dim + c));
  sum = warp_sum(sum);
  const std::int64_t batch = row / h.own(), query = row % h.own();
  if (lane == 0) g.delta[(batch * h.heads + head) * h.own() + query] = sum;
}

}  // namespace

void attention_backward(const CudaLaunch& launch) {
  if (launch.state.cudnn_attention().run(launch)) return;
  with_storage(launch, launch.spec.dtype, [&](auto type) {
    using T = decltype(type);
    auto g = attention_arguments<T>(launch);
    add_backward_operands(launch, g);
    const HeadLayout& h = g.h;
    expect(launch, h.dim <= kMostDim, "has heads of more than 256 elements");
    run_on(warps_for(launch, h.batch * h.own() * h.heads), attention_deltas<T>, g);
    if constexpr (!std::is_same_v<T, float>)
      if (suits_tensor_cores(g)) return attention_backward_mma(launch);
    const std::size_t shared = (4 * tile_words(h.dim) + 2 * kSquareWords) * sizeof(float);
    Place queries = attention_place(launch, h, false, kTile);
    Place keys = attention_place(launch, h, true, kTile);
    queries.shared_bytes = keys.shared_bytes = shared;
    run_on(queries, attention_dq_tiles<T>, g);
    run_on(keys, attention_dkv_tiles<T>, g);
  });
}

}  // namespace trainyard::cuda_kernels
