#include "backends/cuda/kernels/attention.cuh"
#include "backends/cuda/kernels/attention_mma.h"
#include "backends/cuda/kernels/tensor_core.cuh"

namespace trainyard::cuda_kernels {
namespace {

// A block has kMmaRows queries, 16 a warp; tiles of kMmaRows keys pass by.
constexpr int kMmaRows = 64, kMmaThreads = 128;
constexpr int kScoreTiles = kMmaRows / 8;

// A lane's two rows: their running maximum and sum, and the place of the first.
struct RowSums {
  float most[2] = {-INFINITY, -INFINITY}, total[2] = {};
};

// Sum, or maximum, over the four lanes that share rows.
__device__ float quad_sum(float v) {
  v += __shfl_xor_sync(kAllLanes, v, 1);
  return v + __shfl_xor_sync(kAllLanes, v, 2);
}
__device__ float quad_max(float v) {
  v = fmaxf(v, __shfl_xor_sync(kAllLanes, v, 1));
  return fmaxf(v, __shfl_xor_sync(kAllLanes, v, 2));
}

// A warp's part of the tile: where its lane's rows and the tile's keys are.
struct WarpAt {
  Lane lane;
  std::int64_t batch, head;
  TokenSpan queries, keys;
  std::int64_t q, k;  // tokens of the spans: the lane's first row, the tile's first key
  DrawKey draw;
  __device__ std::int64_t query(int half) const {
    return q + 8 * half < queries.count ? queries.place + q + 8 * half : -1;
  }
};

// Scores become weights relative to the running maximum; sums of values shrink with it.
// Loops are unrolled for the sums to stay in registers.
template <class T, int kTiles>
__device__ void weigh(const AttentionArguments<T>& g, const WarpAt& at, RowSums& rows,
                      Sums (&scores)[kScoreTiles], Sums (&sums)[kTiles]) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const std::int64_t query = at.query(half), key = at.keys.place + at.k + 2 * at.lane.t;
    const KeyBounds seen = g.bounds(query, at.keys);
    float highest = -INFINITY;
#pragma unroll
    for (int n = 0; n < kScoreTiles; ++n)
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        float& score = scores[n].v[2 * half + j];
        const bool sees = seen.has(key + n * 8 + j);
        score = sees ? score * g.scale : -INFINITY;
        highest = fmaxf(highest, score);
      }
    const float before = rows.most[half];
    rows.most[half] = fmaxf(before, quad_max(highest));
    const float base = rows.most[half] == -INFINITY ? 0.0F : rows.most[half];  // no key seen yet
    const float shrink = __expf(before - base);
    float total = 0;
#pragma unroll
    for (int n = 0; n < kScoreTiles; ++n)
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        float& weight = scores[n].v[2 * half + j];
        weight = __expf(weight - base);
        total += weight;
      }
    rows.total[half] = rows.total[half] * shrink + quad_sum(total);
#pragma unroll
    for (int n = 0; n < kTiles; ++n)
#pragma unroll
      for (int j = 0; j < 2; ++j) sums[n].v[2 * half + j] *= shrink;
    if (g.drops)
#pragma unroll
      for (int n = 0; n < kScoreTiles; ++n)
#pragma unroll
        for (int j = 0; j < 2; ++j)
          scores[n].v[2 * half + j] *= g.kept(at.draw, at.batch, at.head, query, key + n * 8 + j);
  }
}

template <class T, int kDim>
__global__ void __launch_bounds__(kMmaThreads) attention_mma_tiles(AttentionArguments<T> g) {
  using Rows = SharedRows<T, kDim>;
  constexpr int kTiles = kDim / 8, kSteps = kDim / 16;
  const HeadLayout& h = g.h;
  const int dim = static_cast<int>(h.dim), warp = static_cast<int>(threadIdx.x) / kWarp;
  const Rows keys{reinterpret_cast<T*>(dynamic_shared_memory)};
  const Rows values{keys.at(kMmaRows, 0)};
  // The last tiles, which see the most keys, first.
  const TileOfSpan tile(gridDim.x - 1 - blockIdx.x, h.runs(), kMmaRows);
  const TokenSpan span = g.queries(blockIdx.z, tile.span);
  WarpAt at{Lane(), blockIdx.z, blockIdx.y, span, span, 0, 0, g.draws.key()};
  at.q = tile.first + warp * 16 + at.lane.g;
  const QueryViews<T> own(g, span, at.head);
  keys.load(own.query, tile.first, kMmaRows, dim);
  __syncthreads();
  Left queries[kSteps];
#pragma unroll
  for (int k = 0; k < kSteps; ++k) queries[k] = keys.left(at.lane, warp * 16, k * 16);
  Sums sums[kTiles] = {};
  RowSums rows;
  const std::int64_t end = tile.first + kMmaRows < span.count ? tile.first + kMmaRows : span.count;
  const auto add_keys = [&](const TokenSpan& passing, std::int64_t k) {
    at.keys = passing;
    at.k = k;
    const KeyViews<T> views(g, passing, at.head / h.group);
    __syncthreads();  // all have read what lay there
    keys.load(views.key, k, kMmaRows, dim);
    values.load(views.value, k, kMmaRows, dim);
    __syncthreads();
    Sums scores[kScoreTiles] = {};
#pragma unroll
    for (int s = 0; s < kSteps; ++s)
#pragma unroll
      for (int n = 0; n < kScoreTiles; ++n)
        multiply_add<T>(scores[n], queries[s], keys.transposed(at.lane, n * 8, s * 16));
    weigh(g, at, rows, scores, sums);
#pragma unroll
    for (int s = 0; s < kMmaRows / 16; ++s) {
      const Left weights = rounded_left<T>(scores[2 * s], scores[2 * s + 1]);
#pragma unroll
      for (int n = 0; n < kTiles; ++n)
        multiply_add<T>(sums[n], weights, values.right(at.lane, s * 16, n * 8));
    }
  };
  g.each_key_tile(at.batch, span.place + tile.first, span.place + end, kMmaRows, add_keys);
#pragma unroll
  for (int half = 0; half < 2; ++half) {
#pragma unroll
    for (int n = 0; n < kTiles; ++n)
#pragma unroll
      for (int j = 0; j < 2; ++j) sums[n].v[2 * half + j] /= rows.total[half];
    if (at.lane.t == 0 && at.query(half) >= 0)
      g.lse.at(at.batch * h.heads + at.head, span.row - at.batch * h.own() + at.q + 8 * half) =
          rows.most[half] + __logf(rows.total[half]);
  }
  store_sums(at.lane, sums, own.out, tile.first + warp * 16, dim);
}

template <class T, int kDim>
void run_attention_mma(const CudaLaunch& launch) {
  const auto g = attention_arguments<T>(launch);
  Place place = attention_place(launch, g.h, false, kMmaRows);
  place.threads = dim3(kMmaThreads);
  place.shared_bytes = SharedRows<T, kDim>::bytes(2 * kMmaRows);
  run_on(place, attention_mma_tiles<T, kDim>, g);
}

}  // namespace

void attention_forward_mma(const CudaLaunch& launch) {
  const bool wide = launch.spec.shape[4] > 64;
  if (launch.spec.dtype == DType::bf16)
    wide ? run_attention_mma<bf16, 128>(launch) : run_attention_mma<bf16, 64>(launch);
  else
    wide ? run_attention_mma<fp16, 128>(launch) : run_attention_mma<fp16, 64>(launch);
}

}  // namespace trainyard::cuda_kernels
