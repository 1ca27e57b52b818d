#include "backends/cuda/kernels/bodies.h"
#include "backends/cuda/kernels/device.cuh"

namespace trainyard::cuda_kernels {
namespace {

template <class T>
struct SoftmaxArguments {
  View<const T> x;  // scores, or probabilities in the backward pass
  View<T> y;        // probabilities, or gradients
  std::int64_t window;
  float scale;
  bool packed;
};

// Keys [first, end) that a row of scores sees; rows are queries of one head after another.
struct SeenKeys {
  std::int64_t first, end;
  __device__ SeenKeys(std::int64_t row, std::int64_t sequence, std::int64_t window) {
    const std::int64_t query = row % sequence;
    first = window > 0 && query - window + 1 > 0 ? query - window + 1 : 0;
    end = query + 1;
  }
  __device__ bool has(std::int64_t key) const { return key >= first && key < end; }
};

// A warp has a row.
template <class T>
__global__ void softmax_rows(SoftmaxArguments<T> g) {
  const std::int64_t r = thread_number() / kWarp, lane = threadIdx.x % kWarp;
  if (r >= g.x.rows) return;
  const std::int64_t n = g.x.columns;
  const SeenKeys seen(r, n, g.window);
  const std::int64_t begin = seen.first / kPack<T> * kPack<T> + lane * kPack<T>;
  constexpr std::int64_t kStep = kWarp * kPack<T>;
  float most = -INFINITY, sum = 0;
  for (std::int64_t c = begin; c < seen.end; c += kStep) {
    const Pack<T> x = load<T>(g.x.row(r) + c, n - c, g.packed);
    for (int j = 0; j < kPack<T>; ++j)
      if (seen.has(c + j)) most = fmaxf(most, x.v[j]);
  }
  most = warp_max(most);
  for (std::int64_t c = begin; c < seen.end; c += kStep) {
    const Pack<T> x = load<T>(g.x.row(r) + c, n - c, g.packed);
    for (int j = 0; j < kPack<T>; ++j)
      if (seen.has(c + j)) sum += expf((x.v[j] - most) * g.scale);
  }
  const float inverse = 1 / warp_sum(sum);
  for (std::int64_t c = lane * kPack<T>; c < n; c += kStep) {
    Pack<T> x{};
    if (c < seen.end && c + kPack < T >> seen.first) x = load<T>(g.x.row(r) + c, n - c, g.packed);
    for (int j = 0; j < kPack<T>; ++j)
      x.v[j] = seen.has(c + j) ? expf((x.v[j] - most) * g.scale) * inverse : 0.0F;
    store(x, g.y.row(r) + c, n - c, g.packed);
  }
}

template <class T>
__global__ void softmax_grad_rows(SoftmaxArguments<T> g) {
  const std::int64_t r = thread_number() / kWarp, lane = threadIdx.x % kWarp;
  if (r >= g.x.rows) return;
  const std::int64_t n = g.x.columns;
  constexpr std::int64_t kStep = kWarp * kPack<T>;
  float mean = 0;
  for (std::int64_t c = lane * kPack<T>; c < n; c += kStep) {
    const Pack<T> p = load<T>(g.x.row(r) + c, n - c, g.packed);
    const Pack<T> dp = load<T>(g.y.row(r) + c, n - c, g.packed);
    for (int j = 0; j < kPack<T>; ++j) mean += p.v[j] * dp.v[j];
  }
  mean = warp_sum(mean);
  for (std::int64_t c = lane * kPack<T>; c < n; c += kStep) {
    const Pack<T> p = load<T>(g.x.row(r) + c, n - c, g.packed);
    Pack<T> dp = load<T>(g.y.row(r) + c, n - c, g.packed);
    for (int j = 0; j < kPack<T>; ++j) dp.v[j] = g.scale * p.v[j] * (dp.v[j] - mean);
    store(dp, g.y.row(r) + c, n - c, g.packed);
  }
}

template <class T>
SoftmaxArguments<T> softmax_arguments(const CudaLaunch& launch) {
  const std::int64_t rows = launch.spec.shape[0], columns = launch.spec.shape[1];
  SoftmaxArguments<T> g{operand<const T>(launch, 0, rows, columns),
                        operand<T>(launch, 1, rows, columns), launch.spec.shape[2],
                        static_cast<float>(launch.spec.parameter), false};
  g.packed = has_packs(g.x) && has_packs(g.y);
  return g;
}

}  // namespace

void softmax_forward(const CudaLaunch& launch) {
  with_storage(launch, launch.spec.dtype, [&](auto type) {
    using T = decltype(type);
    const auto g = softmax_arguments<T>(launch);
    run_on(warps_for(launch, g.x.rows), softmax_rows<T>, g);
  });
}

void softmax_backward(const CudaLaunch& launch) {
  with_storage(launch, launch.spec.dtype, [&](auto type) {
    using T = decltype(type);
    const auto g = softmax_arguments<T>(launch);
    run_on(warps_for(launch, g.x.rows), softmax_grad_rows<T>, g);
  });
}

}  // namespace trainyard::cuda_kernels
