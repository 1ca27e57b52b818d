#include "backends/cuda/kernels/bodies.h"
#include "backends/cuda/kernels/column_sums.cuh"

namespace trainyard::cuda_kernels {
namespace {

template <class T>
struct NormArguments {
  View<const T> x, dy, residual;  // dy, residual: backward; residual without data: none
  View<T> y;                      // backward: dx
  View<float> stats;
  const T* gamma;  // then beta
  float epsilon;
  bool packed, centred;
};

// A warp has a row. It passes over it for the mean, the deviation and the result; after the first
// pass the row is in the L1 cache.
template <class T, class Use>
__device__ void for_packs(std::int64_t columns, Use use) {
  const std::int64_t lane = threadIdx.x % kWarp;
  for (std::int64_t c = lane * kPack<T>; c < columns; c += kWarp * kPack<T>) use(c, columns - c);
}

// The row of a thread's warp.
__device__ inline std::int64_t warp_row() { return thread_number() / kWarp; }

// LayerNorm (arXiv 1607.06450): (x - mean) / sqrt(variance + eps) * gamma + beta. RMSNorm (arXiv
// 1910.07467): x / sqrt(mean square + eps) * gamma; its mean is saved as 0.
template <class T>
__global__ void norm_rows(NormArguments<T> g) {
  const std::int64_t r = warp_row();
  if (r >= g.x.rows) return;
  const std::int64_t n = g.x.columns;
  const T* const from = g.x.row(r);
  float mean = 0, variance = 0;
  if (g.centred) {
    for_packs<T>(n, [&](std::int64_t c, std::int64_t count) {
      const Pack<T> x = load<T>(from + c, count, g.packed);
      for (int j = 0; j < kPack<T>; ++j) mean += x.v[j];
    });
    mean = warp_sum(mean) / static_cast<float>(n);
  }
  for_packs<T>(n, [&](std::int64_t c, std::int64_t count) {
    const Pack<T> x = load<T>(from + c, count, g.packed);
    for (int j = 0; j < kPack<T>; ++j)
      if (j < count) variance += (x.v[j] - mean) * (x.v[j] - mean);
  });
  const float inverse = 1 / sqrtf(warp_sum(variance) / static_cast<float>(n) + g.epsilon);
  for_packs<T>(n, [&](std::int64_t c, std::int64_t count) {
    Pack<T> x = load<T>(from + c, count, g.packed);
    const Pack<T> gamma = load<T>(g.gamma + c, count, g.packed);
    for (int j = 0; j < kPack<T>; ++j) x.v[j] = (x.v[j] - mean) * inverse * gamma.v[j];
    if (g.centred) {
      const Pack<T> beta = load<T>(g.gamma + n + c, count, g.packed);
      for (int j = 0; j < kPack<T>; ++j) x.v[j] += beta.v[j];
    }
    store(x, g.y.row(r) + c, count, g.packed);
  });
  if (threadIdx.x % kWarp == 0) {
    g.stats.at(r, 0) = mean;
    g.stats.at(r, 1) = inverse;
  }
}

// dx = (g - mean(g) - xhat * mean(g * xhat)) / deviation with g = dy * gamma; RMSNorm has no
// mean(g).
template <class T>
__global__ void norm_grad_rows(NormArguments<T> g) {
  const std::int64_t r = warp_row();
  if (r >= g.x.rows) return;
  const std::int64_t n = g.x.columns;
  const float mean = g.stats.at(r, 0), inverse = g.stats.at(r, 1);
  float shift = 0, along = 0;
  const auto read = [&](std::int64_t c, std::int64_t count, Pack<T>& scaled, Pack<T>& normed) {
    scaled = load<T>(g.dy.row(r) + c, count, g.packed);
    normed = load<T>(g.x.row(r) + c, count, g.packed);
    const Pack<T> gamma = load<T>(g.gamma + c, count, g.packed);
    for (int j = 0; j < kPack<T>; ++j) {
      scaled.v[j] *= gamma.v[j];
      normed.v[j] = (normed.v[j] - mean) * inverse;
    }
  };
  for_packs<T>(n, [&](std::int64_t c, std::int64_t count) {
    Pack<T> scaled, normed;
    read(c, count, scaled, normed);
    for (int j = 0; j < kPack<T>; ++j) {  // past the end of the row scaled is zero
      shift += scaled.v[j];
      along += scaled.v[j] * normed.v[j];
    }
  });
  shift = g.centred ? warp_sum(shift) / static_cast<float>(n) : 0;
  along = warp_sum(along) / static_cast<float>(n);
  for_packs<T>(n, [&](std::int64_t c, std::int64_t count) {
    Pack<T> scaled, normed;
    read(c, count, scaled, normed);
    for (int j = 0; j < kPack<T>; ++j)
      scaled.v[j] = inverse * (scaled.v[j] - shift - normed.v[j] * along);
    if (g.residual.data != nullptr) {
      const Pack<T> before = load<T>(g.residual.row(r) + c, count, g.packed);
      for (int j = 0; j < kPack<T>; ++j) scaled.v[j] += before.v[j];
    }
    store(scaled, g.y.row(r) + c, count, g.packed);
  });
}

template <class T>
struct ScaleArguments {
  View<const T> x, dy;
  View<float> stats;
  float* partial;  // of each part of the rows: dgamma, and dbeta after it if `centred`
  std::int64_t rows_each;
  bool packed, centred;
};

// dgamma = sum of dy * xhat, dbeta = sum of dy, over a part of the rows.
template <class T>
__global__ void norm_scale_sums(ScaleArguments<T> g) {
  const std::int64_t n = g.x.columns;
  const ColumnTile<T> tile(n);
  float gamma[kPack<T>] = {}, beta[kPack<T>] = {};
  const std::int64_t first = blockIdx.y * g.rows_each;
  const std::int64_t end = first + g.rows_each < g.x.rows ? first + g.rows_each : g.x.rows;
  for (std::int64_t r = first + threadIdx.y; r < end; r += kTileRows) {
    const Pack<T> x = load<T>(g.x.row(r) + tile.column, tile.count, g.packed);
    const Pack<T> dy = load<T>(g.dy.row(r) + tile.column, tile.count, g.packed);
    const float mean = g.stats.at(r, 0), inverse = g.stats.at(r, 1);
    for (int j = 0; j < kPack<T>; ++j) {
      gamma[j] += dy.v[j] * (x.v[j] - mean) * inverse;
      beta[j] += dy.v[j];
    }
  }
  float* const to = g.partial + std::int64_t{blockIdx.y} * (g.centred ? 2 * n : n);
  tile.write(gamma, to);
  if (g.centred) tile.write(beta, to + n);
}

template <class T>
void scale_gradients(const CudaLaunch& launch, const NormArguments<T>& of) {
  const std::int64_t rows = of.x.rows, n = of.x.columns, all = of.centred ? 2 * n : n;
  float* const to = operand<float>(launch, 5, 1, all).data;
  const RowParts parts(rows);
  auto* const partial = static_cast<float*>(launch.state.scratch(column_sums_bytes(rows, all)));
  const ScaleArguments<T> g{of.x,      of.dy,           of.stats,
                            partial,   parts.rows_each, has_packs(of.x) && has_packs(of.dy),
                            of.centred};
  run_on(column_place<T>(launch, n, parts), norm_scale_sums<T>, g);
  add_partial_sums(launch, partial, {to, all, parts.count});
}

// x, gamma, stats, as they stand at these operands.
template <class T>
NormArguments<T> norm_arguments(const CudaLaunch& launch, std::size_t x, std::size_t gamma,
                                std::size_t stats) {
  const std::int64_t rows = launch.spec.shape[0], n = launch.spec.shape[1];
  NormArguments<T> g{};
  g.centred = launch.spec.flag == 0;
  g.x = operand<const T>(launch, x, rows, n);
  const auto scales = operand<const T>(launch, gamma, 1, g.centred ? 2 * n : n);
  g.gamma = scales.data;
  g.stats = operand<float>(launch, stats, rows, 2);
  g.epsilon = static_cast<float>(launch.context.norm_epsilon);
  g.packed = has_packs(g.x) && has_packs(scales) && (!g.centred || n % kPack<T> == 0);
  return g;
}

}  // namespace

void norm_forward(const CudaLaunch& launch) {
  with_storage(launch, launch.spec.dtype, [&](auto type) {
    using T = decltype(type);
    auto g = norm_arguments<T>(launch, 0, 1, 3);
    g.y = operand<T>(launch, 2, g.x.rows, g.x.columns);
    g.packed = g.packed && has_packs(g.y);
    run_on(warps_for(launch, g.x.rows), norm_rows<T>, g);
  });
}

void norm_backward(const CudaLaunch& launch) {
  with_storage(launch, launch.spec.dtype, [&](auto type) {
    using T = decltype(type);
    auto g = norm_arguments<T>(launch, 1, 3, 2);
    const std::int64_t rows = g.x.rows, n = g.x.columns;
    g.dy = operand<const T>(launch, 0, rows, n);
    g.y = operand<T>(launch, 4, rows, n);
    g.packed = g.packed && has_packs(g.dy) && has_packs(g.y);
    scale_gradients(launch, g);  // dx may take the place of dy
    if (has_operand(launch, 6)) {
      g.residual = operand<const T>(launch, 6, rows, n);
      g.packed = g.packed && has_packs(g.residual);
    }
    run_on(warps_for(launch, rows), norm_grad_rows<T>, g);
  });
}

}  // namespace trainyard::cuda_kernels
