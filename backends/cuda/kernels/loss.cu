#include "backends/cuda/kernels/bodies.h"
#include "backends/cuda/kernels/ids.cuh"

namespace trainyard::cuda_kernels {
namespace {

template <class T>
struct LossArguments {
  View<const T> logits;
  TokenIds ids;
  float* maximum;
  float* sums;  // two a row
  View<T> grads;
  const StepScalars* scalars;
  std::int64_t first, real;  // ids [first, first + real) are this rank's, its other columns padding
  bool packed;

  __device__ std::int64_t column_of(std::int64_t id) const {
    return id >= first && id < first + real ? id - first : -1;
  }
};

// A block has a row of each kernel. columns(row, f) calls f(column, pack) for its packs.
template <class T, class Use>
__device__ void for_logits(const LossArguments<T>& g, std::int64_t end, Use use) {
  const T* const row = g.logits.row(blockIdx.x);
  for (std::int64_t c = std::int64_t{threadIdx.x} * kPack<T>; c < end; c += kThreads * kPack<T>)
    use(c, load<T>(row + c, g.logits.columns - c, g.packed));
}

template <class T>
__global__ void max_rows(LossArguments<T> g) {
  float most = -INFINITY;
  for_logits(g, g.real, [&](std::int64_t c, const Pack<T>& x) {
    for (int j = 0; j < kPack<T>; ++j)
      if (c + j < g.real) most = fmaxf(most, x.v[j]);
  });
  most = block_max(most);
  if (threadIdx.x == 0) g.maximum[blockIdx.x] = most;
}

template <class T>
__global__ void sum_rows(LossArguments<T> g) {
  const float most = g.maximum[blockIdx.x];
  float sum = 0;
  for_logits(g, g.real, [&](std::int64_t c, const Pack<T>& x) {
    for (int j = 0; j < kPack<T>; ++j)
      if (c + j < g.real) sum += expf(x.v[j] - most);
  });
  sum = block_sum(sum);
  if (threadIdx.x != 0) return;
  const std::int64_t column = g.column_of(g.ids.target(blockIdx.x));
  g.sums[2 * std::int64_t{blockIdx.x}] = sum;
  g.sums[2 * std::int64_t{blockIdx.x} + 1] =
      column < 0 ? 0.0F : to_float(g.logits.at(blockIdx.x, column));
}

// The gradient is written where its pack was read: dlogits may take the place of the logits.
template <class T>
__global__ void loss_grad_rows(LossArguments<T> g) {
  const std::int64_t r = blockIdx.x, target = g.ids.target(r);
  const bool valid = target >= 0;
  const float weight = static_cast<float>(g.scalars->loss_weight);
  const float most = g.maximum[r], factor = weight / g.sums[2 * r];
  const std::int64_t column = valid ? g.column_of(target) : -1;
  for_logits(g, g.logits.columns, [&](std::int64_t c, Pack<T> x) {
    for (int j = 0; j < kPack<T>; ++j) {
      x.v[j] = valid && c + j < g.real ? expf(x.v[j] - most) * factor : 0.0F;
      if (c + j == column) x.v[j] -= weight;
    }
    store(x, g.grads.row(r) + c, g.logits.columns - c, g.packed);
  });
}

struct TotalArguments {
  TokenIds ids;
  const float* maximum;
  const float* sums;
  float* loss;
  std::int64_t rows;
};

// One block: threads add rows in a fixed order, in double.
__global__ void total_loss(TotalArguments g) {
  double total = 0, valid = 0;
  for (std::int64_t r = threadIdx.x; r < g.rows; r += kThreads) {
    if (g.ids.target(r) < 0) continue;
    total += static_cast<double>(g.maximum[r]) + log(static_cast<double>(g.sums[2 * r])) -
             static_cast<double>(g.sums[2 * r + 1]);
    valid += 1;
  }
  total = block_sum(total);
  valid = block_sum(valid);
  if (threadIdx.x == 0) {
    g.loss[0] += static_cast<float>(total);
    g.loss[1] += static_cast<float>(valid);
  }
}

template <class T>
LossArguments<T> loss_arguments(const CudaLaunch& launch) {
  const std::int64_t rows = launch.spec.shape[0], columns = launch.spec.shape[1];
  LossArguments<T> g{};
  g.logits = operand<const T>(launch, 0, rows, columns);
  g.first = launch.context.tensor_rank * columns;
  const std::int64_t left = launch.context.vocab - g.first;
  g.real = left < 0 ? 0 : left < columns ? left : columns;
  g.scalars = launch.state.scalars();
  g.packed = has_packs(g.logits);
  return g;
}

Place block_a_row(const CudaLaunch& launch) {
  return {dim3(static_cast<unsigned>(launch.spec.shape[0])), dim3(kThreads), launch.stream, 0};
}

}  // namespace

void loss_max(const CudaLaunch& launch) {
  with_storage(launch, launch.spec.dtype, [&](auto type) {
    using T = decltype(type);
    auto g = loss_arguments<T>(launch);
    g.maximum = operand<float>(launch, 1, g.logits.rows, 1).data;
    run_on(block_a_row(launch), max_rows<T>, g);
  });
}

void loss_sum(const CudaLaunch& launch) {
  with_storage(launch, launch.spec.dtype, [&](auto type) {
    using T = decltype(type);
    auto g = loss_arguments<T>(launch);
    g.ids = token_ids(launch, 1);
    g.maximum = operand<float>(launch, 2, g.logits.rows, 1).data;
    g.sums = operand<float>(launch, 3, g.logits.rows, 2).data;
    run_on(block_a_row(launch), sum_rows<T>, g);
  });
}

void loss_forward(const CudaLaunch& launch) {
  const std::int64_t rows = launch.spec.shape[0];
  const TotalArguments g{token_ids(launch, 0), operand<const float>(launch, 1, rows, 1).data,
                         operand<const float>(launch, 2, rows, 2).data,
                         operand<float>(launch, 3, 1, 2).data, rows};
  run_on(Place{dim3(1), dim3(kThreads), launch.stream, 0}, total_loss, g);
}

void loss_backward(const CudaLaunch& launch) {
  with_storage(launch, launch.spec.dtype, [&](auto type) {
    using T = decltype(type);
    auto g = loss_arguments<T>(launch);
    g.ids = token_ids(launch, 1);
    g.maximum = operand<float>(launch, 2, g.logits.rows, 1).data;
    g.sums = operand<float>(launch, 3, g.logits.rows, 2).data;
    g.grads = operand<T>(launch, 4, g.logits.rows, g.logits.columns);
    g.packed = g.packed && has_packs(g.grads);
    run_on(block_a_row(launch), loss_grad_rows<T>, g);
  });
}

}  // namespace trainyard::cuda_kernels
