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

  __device__ void load_queries(std::int64_t batch, std::int64_t head, std::int64_t first) const {
    const std::int64_t row = batch * g.h.sequence;
    TileRows<T>{g.qkv.row(row) + head * dim, g.qkv.stride, first, g.h.sequence}.load(dim, queries);
    TileRows<T>{g.dout.row(row) + head * dim, g.dout.stride, first, g.h.sequence}.load(dim, douts);
  }
  __device__ void load_keys(std::int64_t batch, std::int64_t kv, std::int64_t first) const {
    const T* const row = g.qkv.row(batch * g.h.sequence) + (g.h.heads + kv) * dim;
    TileRows<T>{row, g.qkv.stride, first, g.h.sequence}.load(dim, keys);
    TileRows<T>{row + g.h.kv_heads * dim, g.qkv.stride, first, g.h.sequence}.load(dim, values);
  }

  // The tile's weights after dropout, and the gradients of its scores.
  __device__ void weigh(std::int64_t batch, std::int64_t head, std::int64_t q,
                        std::int64_t k) const {
    float scores[2][2], dweights[2][2];
    tile_products(t, queries, keys, dim, scores);
    tile_products(t, douts, values, dim, dweights);
    for (int i = 0; i < 2; ++i) {
      const std::int64_t query = q + t.y + i * kSide;
      const std::int64_t row = batch * g.h.heads + head;
      const bool in = query < g.h.sequence;
      const float lse = in ? g.lse.at(row, query) : 0.0F;
      const float delta = in ? g.delta[row * g.h.sequence + query] : 0.0F;
      for (int j = 0; j < 2; ++j) {
        const std::int64_t key = k + t.x + j * kSide;
        const bool sees = g.sees(query, key);
        const float weight = sees ? expf(scores[i][j] * g.scale - lse) : 0.0F;
        const float kept = g.drops && sees ? g.kept(draw, batch, head, query, key) : 1.0F;
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
  const std::int64_t first = std::int64_t{gridDim.x - 1 - blockIdx.x} * kTile;
  const std::int64_t head = blockIdx.y, batch = blockIdx.z;
  tile.load_queries(batch, head, first);
  float sums[2][kDims] = {};
  const std::int64_t last = first + kTile < h.sequence ? first + kTile : h.sequence;
  for (std::int64_t k = g.first_key(first) / kTile * kTile; k < last; k += kTile) {
    __syncthreads();  // of the tile before, all have read
    tile.load_keys(batch, head / h.group, k);
    __syncthreads();
    tile.weigh(batch, head, first, k);
    __syncthreads();
    add_products<false>(tile.t, tile.dscores, tile.keys, tile.dim, sums);
  }
  store_tile(tile.t, sums, g.scale,
             TileRows<T>{g.dqkv.row(batch * h.sequence) + head * tile.dim, g.dqkv.stride, first,
                         h.sequence},
             tile.dim);
}

template <class T>
__global__ void attention_dkv_tiles(AttentionArguments<T> g) {
  const BackwardTile<T> tile(g);
  const HeadLayout& h = g.h;
  const std::int64_t first = std::int64_t{blockIdx.x} * kTile;
  const std::int64_t kv = blockIdx.y, batch = blockIdx.z;
  tile.load_keys(batch, kv, first);
  float dk[2][kDims] = {}, dv[2][kDims] = {};
  const std::int64_t end = g.end_of_queries(first, kTile);
  for (std::int64_t head = kv * h.group; head < (kv + 1) * h.group; ++head) {
    for (std::int64_t q = first; q < end; q += kTile) {
      __syncthreads();
      tile.load_queries(batch, head, q);
      __syncthreads();
      tile.weigh(batch, head, q, first);
      __syncthreads();
      add_products<true>(tile.t, tile.weights, tile.douts, tile.dim, dv);
      add_products<true>(tile.t, tile.dscores, tile.queries, tile.dim, dk);
    }
  }
  T* const to = g.dqkv.row(batch * h.sequence) + (h.heads + kv) * tile.dim;
  store_tile(tile.t, dk, g.scale, TileRows<T>{to, g.dqkv.stride, first, h.sequence}, tile.dim);
  store_tile(tile.t, dv, 1.0F,
             TileRows<T>{to + h.kv_heads * tile.dim, g.dqkv.stride, first, h.sequence}, tile.dim);
}

// delta = sum over a head of out * dout: a warp a head of a row.
template <class T>
__global__ void attention_deltas(AttentionArguments<T> g) {
  const HeadLayout& h = g.h;
  const std::int64_t number = thread_number() / kWarp, lane = threadIdx.x % kWarp;
  if (number >= h.batch * h.sequence * h.heads) return;
  const std::int64_t row = number / h.heads, head = number % h.heads;
  float sum = 0;
  for (std::int64_t c = lane; c < h.dim; c += kWarp)
    sum += to_float(g.out.at(row, head * h.dim + c)) * to_float(g.dout.at(row, head * h.dim + c));
  sum = warp_sum(sum);
  const std::int64_t batch = row / h.sequence, query = row % h.sequence;
  if (lane == 0) g.delta[(batch * h.heads + head) * h.sequence + query] = sum;
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
    run_on(warps_for(launch, h.batch * h.sequence * h.heads), attention_deltas<T>, g);
    if constexpr (!std::is_same_v<T, float>)
      if (suits_tensor_cores(g)) return attention_backward_mma(launch);
    const std::size_t shared = (4 * tile_words(h.dim) + 2 * kSquareWords) * sizeof(float);
    Place queries = attention_place(launch, h, h.heads, kTile);
    Place keys = attention_place(launch, h, h.kv_heads, kTile);
    queries.shared_bytes = keys.shared_bytes = shared;
    run_on(queries, attention_dq_tiles<T>, g);
    run_on(keys, attention_dkv_tiles<T>, g);
  });
}

}  // namespace trainyard::cuda_kernels
