#include "backends/cuda/kernels/bodies.h"
#include "backends/cuda/kernels/ids.cuh"
#include "backends/cuda/kernels/random.cuh"

namespace trainyard::cuda_kernels {
namespace {

template <class T>
struct LookUpArguments {
  TokenIds ids;
  View<const T> table;
  View<T> out;
  std::int64_t first_id;
  PackGrid packs;
  bool packed;
};

template <class T>
__global__ void look_up_packs(LookUpArguments<T> g) {
  const std::uint32_t i = thread_number();
  if (i >= g.packs.total) return;
  const auto [r, column] = place_of<T>(g.packs, i);
  const std::int64_t count = g.out.columns - column, row = g.ids.input(r) - g.first_id;
  Raw<T> raw;
  if (row >= 0 && row < g.table.rows)
    raw = load_raw(g.table.row(row) + column, count, g.packed);
  else
    for (int j = 0; j < kPack<T>; ++j) raw.v[j] = from_float<T>(0);
  store_raw(raw, g.out.row(r) + column, count, g.packed);
}

template <class T>
struct EmbeddingGradArguments {
  TokenIds ids;
  View<const T> dout;
  View<float> grads;
  std::int64_t first_id;
  bool packed;
};

constexpr int kGradThreads = 128;

// Adds the rows of each token in their order, without atomics and without sorting: the block of a
// token's first row finds the others by reading the tokens, which all fit the caches, and adds
// them. Blocks of later rows find that they are not the first and end. Blocks have kGradThreads
// packs of columns.
template <class T>
__global__ void add_token_rows(EmbeddingGradArguments<T> g) {
  __shared__ int rows[kGradThreads];
  __shared__ unsigned votes[kGradThreads / kWarp];
  const std::int64_t first = blockIdx.x, row = g.ids.input(first) - g.first_id;
  if (row < 0 || row >= g.grads.rows) return;
  const int thread = static_cast<int>(threadIdx.x), warp = thread / kWarp, lane = thread % kWarp;
  const std::int64_t column = (std::int64_t{blockIdx.y} * kGradThreads + thread) * kPack<T>;
  const std::int64_t count = g.grads.columns - column;
  float sums[kPack<T>];
  for (int j = 0; j < kPack<T>; ++j) sums[j] = j < count ? g.grads.row(row)[column + j] : 0.0F;
  for (std::int64_t from = 0; from < g.dout.rows; from += kGradThreads) {
    const std::int64_t mine = from + thread;
    const bool same = mine < g.dout.rows && g.ids.input(mine) - g.first_id == row;
    const unsigned vote = __ballot_sync(kAllLanes, same);
    if (lane == 0) votes[warp] = vote;
    __syncthreads();
    int before = __popc(vote & ((1U << lane) - 1U)), found = 0;
    for (int w = 0; w < kGradThreads / kWarp; ++w) {
      if (w < warp) before += __popc(votes[w]);
      found += __popc(votes[w]);
    }
    if (same) rows[before] = thread;
    __syncthreads();
    if (found > 0 && from + rows[0] < first) return;  // not the first row: all threads agree
    for (int k = 0; k < found; ++k) {
      const Pack<T> x = load<T>(g.dout.row(from + rows[k]) + column, count, g.packed);
      for (int j = 0; j < kPack<T>; ++j) sums[j] += x.v[j];
    }
    __syncthreads();
  }
  for (int j = 0; j < kPack<T>; ++j)
    if (j < count) g.grads.row(row)[column + j] = sums[j];
}

template <class T>
struct PositionGradArguments {
  View<const T> dout;
  View<float> grads;
  TokenRows tokens;
  std::int64_t token_count;
  PackGrid packs;
  bool packed;
};

// A thread adds a pack of one place over the sequences, in their order.
template <class T>
__global__ void add_position_rows(PositionGradArguments<T> g) {
  const std::uint32_t i = thread_number();
  if (i >= g.packs.total) return;
  const auto [own, column] = place_of<T>(g.packs, i);
  const std::int64_t place = g.tokens.places.at(own);
  if (place >= g.grads.rows) return;
  const std::int64_t count = g.grads.columns - column;
  float* const to = g.grads.row(place) + column;
  float sums[kPack<T>];
  for (int j = 0; j < kPack<T>; ++j) sums[j] = j < count ? to[j] : 0.0F;
  for (std::int64_t token = own; token < g.token_count; token += g.tokens.places.own) {
    const std::int64_t row = g.tokens.row_of(token);
    if (row < 0) continue;
    const Pack<T> x = load<T>(g.dout.row(row) + column, count, g.packed);
    for (int j = 0; j < kPack<T>; ++j) sums[j] += x.v[j];
  }
  for (int j = 0; j < kPack<T>; ++j)
    if (j < count) to[j] = sums[j];
}

template <class T>
void position_gradients(const CudaLaunch& launch) {
  const std::int64_t rows = launch.spec.shape[0], n = launch.spec.shape[1];
  PositionGradArguments<T> g{};
  g.dout = operand<const T>(launch, 0, rows, n);
  g.grads = operand<float>(launch, 1);
  g.tokens = token_rows(launch, rows);
  g.token_count = launch.context.tokens;
  expect(launch, g.grads.columns == n, "gradient and table differ in columns");
  g.packs = packs_of<T>(launch, g.tokens.places.own, n);
  g.packed = has_packs(g.dout);
  run_on(threads_for(launch, g.packs.total), add_position_rows<T>, g);
}

}  // namespace

void embedding_forward(const CudaLaunch& launch) {
  with_storage(launch, launch.spec.dtype, [&](auto type) {
    using T = decltype(type);
    const std::int64_t tokens = launch.spec.shape[0], n = launch.spec.shape[1];
    LookUpArguments<T> g{};
    g.ids = token_ids(launch, 0);
    g.table = operand<const T>(launch, 1);
    g.out = operand<T>(launch, 2, tokens, n);
    expect(launch, g.table.columns == n, "table and result differ in columns");
    g.first_id = launch.context.tensor_rank * g.table.rows;
    g.packs = packs_of<T>(launch, tokens, n);
    g.packed = has_packs(g.table) && has_packs(g.out);
    run_on(threads_for(launch, g.packs.total), look_up_packs<T>, g);
  });
}

void embedding_backward(const CudaLaunch& launch) {
  with_storage(launch, launch.spec.dtype, [&](auto type) {
    using T = decltype(type);
    if (launch.spec.flag == 1) return position_gradients<T>(launch);
    const std::int64_t rows = launch.spec.shape[0], n = launch.spec.shape[1];
    EmbeddingGradArguments<T> g{};
    g.ids = token_ids(launch, 0);
    g.dout = operand<const T>(launch, 1, rows, n);
    g.grads = operand<float>(launch, 2);
    expect(launch, g.grads.columns == n, "gradient and table differ in columns");
    g.first_id = launch.context.tensor_rank * g.grads.rows;
    g.packed = has_packs(g.dout);
    const std::int64_t packs = (n + kPack<T> - 1) / kPack<T>;
    run_on(Place{dim3(static_cast<unsigned>(rows),
                      static_cast<unsigned>((packs + kGradThreads - 1) / kGradThreads)),
                 dim3(kGradThreads), launch.stream, 0},
           add_token_rows<T>, g);
  });
}

}  // namespace trainyard::cuda_kernels
