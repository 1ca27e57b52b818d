#include "backends/cuda/kernels/attention.cuh"
#include "backends/cuda/kernels/attention_mma.h"
#include "backends/cuda/kernels/tensor_core.cuh"

namespace trainyard::cuda_kernels {
namespace {

// Blocks have kOwnRows queries or keys, 16 a warp; tiles of kPassRows keys or queries pass by.
constexpr int kOwnRows = 64, kPassRows = 32, kBackwardThreads = 128;
constexpr int kPassTiles = kPassRows / 8;

// Scores and the gradients of weights of 16 own rows and kPassRows passing rows.
struct Pairs {
  Sums scores[kPassTiles], dweights[kPassTiles];
};

// What a block has in shared memory.
template <class T, int kDim>
struct BackwardRows {
  using Rows = SharedRows<T, kDim>;
  Rows own_a, own_b;    // queries and their gradients, or keys and values
  Rows pass_a, pass_b;  // the other two
  float* lse;           // of passing queries
  float* delta;

  __device__ BackwardRows()
      : own_a{reinterpret_cast<T*>(dynamic_shared_memory)},
        own_b{own_a.at(kOwnRows, 0)},
        pass_a{own_b.at(kOwnRows, 0)},
        pass_b{pass_a.at(kPassRows, 0)},
        lse(reinterpret_cast<float*>(pass_b.at(kPassRows, 0))),
        delta(lse + kPassRows) {}
  static constexpr std::size_t bytes() {
    return Rows::bytes(2 * kOwnRows + 2 * kPassRows) + 2 * kPassRows * sizeof(float);
  }

  // Products of a warp's own rows with the passing ones.
  __device__ void multiply(const Lane& lane, int row, Pairs& pairs) const {
    for (int n = 0; n < kPassTiles; ++n) pairs.scores[n] = pairs.dweights[n] = Sums{};
    for (int k = 0; k < kDim; k += 16) {
      const Left a = own_a.left(lane, row, k), b = own_b.left(lane, row, k);
      for (int n = 0; n < kPassTiles; ++n) {
        multiply_add<T>(pairs.scores[n], a, pass_a.transposed(lane, n * 8, k));
        multiply_add<T>(pairs.dweights[n], b, pass_b.transposed(lane, n * 8, k));
      }
    }
  }
};

// Where a pair of rows is.
struct PairAt {
  std::int64_t batch, head, query, key;
};

// Place of a token of a span; negative: there is none.
__device__ std::int64_t place_in(const TokenSpan& span, std::int64_t token) {
  return token < span.count ? span.place + token : -1;
}

// What a query weighs its keys by.
struct Weighed {
  KeyBounds seen;
  float2 lse_delta;
};

// A score and the gradient of its weight become the weight after dropout and the gradient of the
// score.
template <class T>
__device__ void weigh_pair(const AttentionArguments<T>& g, DrawKey draw, const PairAt& at,
                           const Weighed& by, float2& pair) {
  const float2 lse_delta = by.lse_delta;
  const bool sees = by.seen.has(at.key);
  const float weight = sees ? __expf(pair.x * g.scale - lse_delta.x) : 0.0F;
  const float kept = g.drops && sees ? g.kept(draw, at.batch, at.head, at.query, at.key) : 1.0F;
  pair = make_float2(weight * kept, weight * (kept * pair.y - lse_delta.y));
}

// sums[n] += left (16 rows by kPassRows) * passing rows.
template <class T, int kDim>
__device__ void add_rows(const Lane& lane, const Sums (&left)[kPassTiles],
                         const SharedRows<T, kDim>& rows, Sums (&sums)[kDim / 8]) {
  for (int k = 0; k < kPassRows / 16; ++k) {
    const Left a = rounded_left<T>(left[2 * k], left[2 * k + 1]);
    for (int n = 0; n < kDim / 8; ++n) multiply_add<T>(sums[n], a, rows.right(lane, k * 16, n * 8));
  }
}

template <int kTiles>
__device__ void scale_sums(Sums (&sums)[kTiles], float factor) {
  for (int n = 0; n < kTiles; ++n)
    for (int j = 0; j < 4; ++j) sums[n].v[j] *= factor;
}

template <class T, int kDim>
__global__ void __launch_bounds__(kBackwardThreads) attention_dq_mma(AttentionArguments<T> g) {
  const BackwardRows<T, kDim> rows;
  const HeadLayout& h = g.h;
  const Lane lane;
  const int dim = static_cast<int>(h.dim), warp = static_cast<int>(threadIdx.x) / kWarp;
  const TileOfSpan tile(gridDim.x - 1 - blockIdx.x, h.runs(), kOwnRows);
  PairAt at{blockIdx.z, blockIdx.y, 0, 0};
  const TokenSpan span = g.queries(at.batch, tile.span);
  const QueryViews<T> own(g, span, at.head);
  rows.own_a.load(own.query, tile.first, kOwnRows, dim);
  rows.own_b.load(own.dout, tile.first, kOwnRows, dim);
  const DrawKey draw = g.draws.key();
  const std::int64_t token = tile.first + warp * 16 + lane.g;
  const std::int64_t row = at.batch * h.heads + at.head;
  Weighed by[2] = {};
  for (int half = 0; half < 2; ++half) {
    const std::int64_t q = span.row - at.batch * h.own() + token + 8 * half;
    const bool in = token + 8 * half < span.count;
    by[half].lse_delta =
        make_float2(in ? g.lse.at(row, q) : 0.0F, in ? g.delta[row * h.own() + q] : 0.0F);
  }
  Sums sums[kDim / 8] = {};
  const std::int64_t end = tile.first + kOwnRows < span.count ? tile.first + kOwnRows : span.count;
  const auto add_keys = [&](const TokenSpan& keys, std::int64_t k) {
    const KeyViews<T> views(g, keys, at.head / h.group);
    __syncthreads();  // all have read what lay there
    rows.pass_a.load(views.key, k, kPassRows, dim);
    rows.pass_b.load(views.value, k, kPassRows, dim);
    __syncthreads();
    for (int half = 0; half < 2; ++half)
      by[half].seen = g.bounds(place_in(span, token + 8 * half), keys);
    Pairs pairs;
    rows.multiply(lane, warp * 16, pairs);
    for (int n = 0; n < kPassTiles; ++n)
      for (int i = 0; i < 4; ++i) {
        at.query = span.place + token + i / 2 * 8;
        at.key = keys.place + k + n * 8 + 2 * lane.t + i % 2;
        float2 pair = make_float2(pairs.scores[n].v[i], pairs.dweights[n].v[i]);
        weigh_pair(g, draw, at, by[i / 2], pair);
        pairs.dweights[n].v[i] = pair.y;
      }
    add_rows(lane, pairs.dweights, rows.pass_a, sums);
  };
  g.each_key_tile(at.batch, span.place + tile.first, span.place + end, kPassRows, add_keys);
  scale_sums(sums, g.scale);
  store_sums(lane, sums, own.dquery, tile.first + warp * 16, dim);
}

template <class T, int kDim>
__global__ void __launch_bounds__(kBackwardThreads) attention_dkv_mma(AttentionArguments<T> g) {
  const BackwardRows<T, kDim> rows;
  const HeadLayout& h = g.h;
  const Lane lane;
  const int dim = static_cast<int>(h.dim), warp = static_cast<int>(threadIdx.x) / kWarp;
  const TileOfSpan tile(blockIdx.x, h.pieces(), kOwnRows);
  const std::int64_t kv = blockIdx.y;
  PairAt at{blockIdx.z, 0, 0, 0};
  const TokenSpan keys = g.keys(at.batch, tile.span);
  const KeyViews<T> own(g, keys, kv);
  rows.own_a.load(own.key, tile.first, kOwnRows, dim);
  rows.own_b.load(own.value, tile.first, kOwnRows, dim);
  const DrawKey draw = g.draws.key();
  Sums dk[kDim / 8] = {}, dv[kDim / 8] = {};
  const auto add_queries = [&](const TokenSpan& span) {
    const QueryViews<T> views(g, span, at.head);
    const std::int64_t row = at.batch * h.heads + at.head;
    const auto range = g.seeing(span, keys.place + tile.first, kOwnRows, kPassRows);
    for (std::int64_t q = range.first; q < range.end; q += kPassRows) {
      __syncthreads();  // all have read what lay there
      rows.pass_a.load(views.query, q, kPassRows, dim);
      rows.pass_b.load(views.dout, q, kPassRows, dim);
      if (threadIdx.x < kPassRows) {
        const std::int64_t query = span.row - at.batch * h.own() + q + threadIdx.x;
        const bool in = q + threadIdx.x < span.count;
        rows.lse[threadIdx.x] = in ? g.lse.at(row, query) : 0.0F;
        rows.delta[threadIdx.x] = in ? g.delta[row * h.own() + query] : 0.0F;
      }
      __syncthreads();
      Pairs pairs;
      rows.multiply(lane, warp * 16, pairs);
      for (int n = 0; n < kPassTiles; ++n)
        for (int i = 0; i < 4; ++i) {
          const int column = n * 8 + 2 * lane.t + i % 2;
          at.query = place_in(span, q + column);
          at.key = keys.place + tile.first + warp * 16 + lane.g + i / 2 * 8;
          float2 pair = make_float2(pairs.scores[n].v[i], pairs.dweights[n].v[i]);
          weigh_pair(g, draw, at,
                     {g.bounds(at.query, keys), make_float2(rows.lse[column], rows.delta[column])},
                     pair);
          pairs.scores[n].v[i] = pair.x;
          pairs.dweights[n].v[i] = pair.y;
        }
      add_rows(lane, pairs.scores, rows.pass_b, dv);
      add_rows(lane, pairs.dweights, rows.pass_a, dk);
    }
  };
  for (at.head = kv * h.group; at.head < (kv + 1) * h.group; ++at.head)
    for (std::int64_t run = 0; run < h.runs(); ++run) add_queries(g.queries(at.batch, run));
  scale_sums(dk, g.scale);
  store_sums(lane, dk, own.dkey, tile.first + warp * 16, dim);
  store_sums(lane, dv, own.dvalue, tile.first + warp * 16, dim);
}

template <class T, int kDim>
void run_backward_mma(const CudaLaunch& launch) {
  auto g = attention_arguments<T>(launch);
  add_backward_operands(launch, g);
  Place queries = attention_place(launch, g.h, false, kOwnRows);
  Place keys = attention_place(launch, g.h, true, kOwnRows);
  queries.threads = keys.threads = dim3(kBackwardThreads);
  queries.shared_bytes = keys.shared_bytes = BackwardRows<T, kDim>::bytes();
  run_on(queries, attention_dq_mma<T, kDim>, g);
  run_on(keys, attention_dkv_mma<T, kDim>, g);
}

}  // namespace

void attention_backward_mma(const CudaLaunch& launch) {
  const bool wide = launch.spec.shape[4] > 64;
  if (launch.spec.dtype == DType::bf16)
    wide ? run_backward_mma<bf16, 128>(launch) : run_backward_mma<bf16, 64>(launch);
  else
    wide ? run_backward_mma<fp16, 128>(launch) : run_backward_mma<fp16, 64>(launch);
}

}  // namespace trainyard::cuda_kernels
