#include "backends/cuda/kernels/bodies.h"
#include "backends/cuda/kernels/optimizer.cuh"

namespace trainyard::cuda_kernels {
namespace {

struct DirectionArguments {
  FlatArguments<float> flat;
  const float* grad;
  float *m, *v;
  const float* weight;
  float* direction;
  double* partial;  // of each chunk: sums of squares of weight and direction
  Moments moments;
  float decay;
};

// LAMB (You et al., arXiv 1904.00962, algorithm 2): direction = mhat / (sqrt(vhat) + eps) + decay *
// weight, then weight -= rate * |weight| / |direction| * direction, norms a tensor.
__global__ void lamb_directions(DirectionArguments g) {
  const Chunk chunk = g.flat.chunks[blockIdx.x];
  const bool skips = g.flat.scalars->skip != 0;
  const Corrections corrections(*g.flat.scalars);
  const float decay = chunk.decays ? g.decay : 0.0F;
  double of_weight = 0, of_direction = 0;
  for_fours(chunk, g.flat.aligned, [&](std::int64_t at, std::int64_t count, bool packed) {
    Pack<float> direction{};
    if (!skips && chunk.tensor >= 0) {
      const Pack<float> grad = load<float>(g.grad + at, count, packed);
      const Pack<float> weight = load<float>(g.weight + at, count, packed);
      Pack<float> m = load<float>(g.m + at, count, packed);
      Pack<float> v = load<float>(g.v + at, count, packed);
      for (int j = 0; j < kFour; ++j) {
        if (j >= count) break;
        const float gradient = grad.v[j] * corrections.scale;
        const float step = adam_direction(g.moments, corrections, gradient, m.v[j], v.v[j]);
        direction.v[j] = step + decay * weight.v[j];
        of_weight += static_cast<double>(weight.v[j]) * static_cast<double>(weight.v[j]);
        of_direction += static_cast<double>(direction.v[j]) * static_cast<double>(direction.v[j]);
      }
      store(m, g.m + at, count, packed);
      store(v, g.v + at, count, packed);
    }
    store(direction, g.direction + at, count, packed);
  });
  write_partial(of_weight, of_direction, g.partial);
}

struct NormArgumentsOfTensors {
  const Chunk* chunks;
  const std::int32_t* first_chunk;
  std::int64_t tensors;
  const double* partial;
  float* norms;
  const StepScalars* scalars;
};

// A warp adds the chunks of a tensor.
__global__ void lamb_norms(NormArgumentsOfTensors g) {
  const std::int64_t t = thread_number() / kWarp;
  if (t >= g.tensors) return;
  const std::int32_t first = g.first_chunk[t], end = g.first_chunk[t + 1];
  const bool counts = g.scalars->skip == 0 && first < end && g.chunks[first].in_own_norm;
  double of_weight = 0, of_direction = 0;
  for (std::int64_t c = first + static_cast<int>(threadIdx.x) % kWarp; counts && c < end;
       c += kWarp) {
    of_weight += g.partial[2 * c];
    of_direction += g.partial[2 * c + 1];
  }
  of_weight = warp_sum(of_weight);
  of_direction = warp_sum(of_direction);
  if (threadIdx.x % kWarp != 0) return;
  g.norms[2 * t] = static_cast<float>(of_weight);
  g.norms[2 * t + 1] = static_cast<float>(of_direction);
}

template <class T>
struct ApplyArguments {
  FlatArguments<T> flat;
  const float* direction;
  const float* norms;
  float* weight;
};

template <class T>
__global__ void lamb_steps(ApplyArguments<T> g) {
  const Chunk chunk = g.flat.chunks[blockIdx.x];
  const bool updates = chunk.tensor >= 0 && g.flat.scalars->skip == 0;
  float rate = 0;
  if (updates) {
    const double of_weight = static_cast<double>(g.norms[2 * chunk.tensor]);
    const double of_direction = static_cast<double>(g.norms[2 * chunk.tensor + 1]);
    const bool trusted = chunk.decays && of_weight > 0 && of_direction > 0;
    const double ratio = trusted ? sqrt(of_weight / of_direction) : 1;
    rate = static_cast<float>(g.flat.scalars->learning_rate * ratio);
  }
  for_fours(chunk, g.flat.aligned, [&](std::int64_t at, std::int64_t count, bool packed) {
    Pack<float> weight = load<float>(g.weight + at, count, packed);
    if (updates) {
      const Pack<float> direction = load<float>(g.direction + at, count, packed);
      for (int j = 0; j < kFour; ++j) weight.v[j] -= rate * direction.v[j];
      store(weight, g.weight + at, count, packed);
    }
    if (g.flat.rounded != nullptr) store_rounded(weight.v, g.flat.rounded + at, count, packed);
  });
}

}  // namespace

void lamb_update(const CudaLaunch& launch) {
  const std::int64_t n = launch.spec.shape[0];
  const DeviceTensors& tensors = launch.state.tensors(launch.context, n);
  const StepScalars* const scalars = launch.state.scalars();
  auto* const partial = static_cast<double*>(
      launch.state.scratch(static_cast<std::size_t>(tensors.chunk_count) * 2 * sizeof(double)));
  DirectionArguments g{{tensors.chunks, scalars, nullptr, false},
                       operand<const float>(launch, 0, 1, n).data,
                       operand<float>(launch, 1, 1, n).data,
                       operand<float>(launch, 2, 1, n).data,
                       operand<const float>(launch, 3, 1, n).data,
                       operand<float>(launch, 4, 1, n).data,
                       partial,
                       moments_of(launch.context),
                       static_cast<float>(launch.context.weight_decay)};
  g.flat.aligned = on_16_bytes(g.grad) && on_16_bytes(g.m) && on_16_bytes(g.v) &&
                   on_16_bytes(g.weight) && on_16_bytes(g.direction);
  float* const norms = operand<float>(launch, 5, tensors.tensor_count, 2).data;
  if (tensors.chunk_count > 0) run_on(block_a_chunk(launch, tensors), lamb_directions, g);
  run_on(warps_for(launch, tensors.tensor_count), lamb_norms,
         NormArgumentsOfTensors{tensors.chunks, tensors.first_chunk, tensors.tensor_count, partial,
                                norms, scalars});
}

void lamb_apply(const CudaLaunch& launch) {
  with_rounded(launch, 3, [&](auto* rounded) {
    using T = std::remove_pointer_t<decltype(rounded)>;
    const std::int64_t n = launch.spec.shape[0];
    const DeviceTensors& tensors = launch.state.tensors(launch.context, n);
    if (tensors.chunk_count == 0) return;
    ApplyArguments<T> g{{tensors.chunks, launch.state.scalars(), rounded, false},
                        operand<const float>(launch, 0, 1, n).data,
                        operand<const float>(launch, 1, tensors.tensor_count, 2).data,
                        operand<float>(launch, 2, 1, n).data};
    g.flat.aligned = on_16_bytes(g.direction) && on_16_bytes(g.weight) && on_16_bytes(rounded);
    run_on(block_a_chunk(launch, tensors), lamb_steps<T>, g);
  });
}

}  // namespace trainyard::cuda_kernels
