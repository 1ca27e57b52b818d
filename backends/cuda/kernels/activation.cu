#include "backends/cuda/kernels/bodies.h"
#include "backends/cuda/kernels/device.cuh"

namespace trainyard::cuda_kernels {
namespace {

// GELU as GPT-2 computes it: x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))) (Hendrycks and Gimpel,
// arXiv 1606.08415, section 2).
constexpr float kSlope = 0.7978845608028654F;  // sqrt(2 / pi)
constexpr float kCubic = 0.044715F;

__device__ float gelu_tanh(float x) { return tanhf(kSlope * (x + kCubic * x * x * x)); }
__device__ float sigmoid(float x) { return 1 / (1 + expf(-x)); }

template <class T>
struct ActivationArguments {
  View<const T> x, dy;  // dy: backward only
  View<T> y;            // backward: dx
  const T* bias;        // null: none
  std::int64_t columns;
  PackGrid packs;
  bool packed, gated;
};

template <class T>
__device__ Pack<T> biased(const ActivationArguments<T>& g, std::int64_t row, std::int64_t column,
                          std::int64_t count) {
  Pack<T> x = load<T>(g.x.row(row) + column, count, g.packed);
  if (g.bias == nullptr) return x;
  const Pack<T> bias = load<T>(g.bias + column, count, g.packed);
  for (int j = 0; j < kPack<T>; ++j) x.v[j] += bias.v[j];
  return x;
}

template <class T>
__global__ void activation_packs(ActivationArguments<T> g) {
  const std::uint32_t i = thread_number();
  if (i >= g.packs.total) return;
  const auto [row, column] = place_of<T>(g.packs, i);
  const std::int64_t count = g.columns - column;
  Pack<T> x = biased(g, row, column, count);
  if (g.gated) {
    const Pack<T> value = biased(g, row, g.columns + column, count);
    for (int j = 0; j < kPack<T>; ++j) x.v[j] = x.v[j] * sigmoid(x.v[j]) * value.v[j];
  } else {
    for (int j = 0; j < kPack<T>; ++j) x.v[j] = 0.5F * x.v[j] * (1 + gelu_tanh(x.v[j]));
  }
  store(x, g.y.row(row) + column, count, g.packed);
}

template <class T>
__global__ void activation_grad_packs(ActivationArguments<T> g) {
  const std::uint32_t i = thread_number();
  if (i >= g.packs.total) return;
  const auto [row, column] = place_of<T>(g.packs, i);
  const std::int64_t count = g.columns - column;
  Pack<T> x = biased(g, row, column, count);
  const Pack<T> dy = load<T>(g.dy.row(row) + column, count, g.packed);
  T* const to = g.y.row(row) + column;
  if (g.gated) {
    Pack<T> value = biased(g, row, g.columns + column, count);
    for (int j = 0; j < kPack<T>; ++j) {
      const float s = sigmoid(x.v[j]), gate = x.v[j];
      x.v[j] = dy.v[j] * value.v[j] * s * (1 + gate * (1 - s));
      value.v[j] = dy.v[j] * gate * s;
    }
    store(value, to + g.columns, count, g.packed);
  } else {
    for (int j = 0; j < kPack<T>; ++j) {
      const float t = gelu_tanh(x.v[j]);
      const float slope = kSlope * (1 + 3 * kCubic * x.v[j] * x.v[j]);
      x.v[j] = dy.v[j] * 0.5F * (1 + t + x.v[j] * (1 - t * t) * slope);
    }
  }
  store(x, to, count, g.packed);
}

template <class T>
ActivationArguments<T> activation_arguments(const CudaLaunch& launch, std::size_t bias) {
  const std::int64_t rows = launch.spec.shape[0], columns = launch.spec.shape[1];
  ActivationArguments<T> g{};
  g.gated = launch.spec.flag == 1;
  g.columns = columns;
  const std::int64_t inputs = g.gated ? 2 * columns : columns;
  g.x = operand<const T>(launch, 0, rows, inputs);
  g.packed = has_packs(g.x) && (!g.gated || columns % kPack<T> == 0);
  if (has_operand(launch, bias)) {
    const auto b = operand<const T>(launch, bias, 1, inputs);
    g.bias = b.data;
    g.packed = g.packed && has_packs(b);
  }
  g.packs = packs_of<T>(launch, rows, columns);
  return g;
}

}  // namespace

void activation_forward(const CudaLaunch& launch) {
  with_storage(launch, launch.spec.dtype, [&](auto type) {
    using T = decltype(type);
    auto g = activation_arguments<T>(launch, 2);
    g.y = operand<T>(launch, 1, launch.spec.shape[0], launch.spec.shape[1]);
    g.packed = g.packed && has_packs(g.y);
    run_on(threads_for(launch, g.packs.total), activation_packs<T>, g);
  });
}

void activation_backward(const CudaLaunch& launch) {
  with_storage(launch, launch.spec.dtype, [&](auto type) {
    using T = decltype(type);
    auto g = activation_arguments<T>(launch, 3);
    g.dy = operand<const T>(launch, 1, launch.spec.shape[0], launch.spec.shape[1]);
    const Matrix dx = operand_of(launch, 2, label<T>(), {launch.spec.shape[0], g.x.columns});
    g.y = view_of<T>(dx);
    g.packed = g.packed && has_packs(g.y) && has_packs(g.dy);
    run_on(threads_for(launch, g.packs.total), activation_grad_packs<T>, g);
    if (has_operand(launch, 4))
      add_column_sums(launch, dx, operand<float>(launch, 4, 1, g.x.columns).data);
  });
}

}  // namespace trainyard::cuda_kernels
