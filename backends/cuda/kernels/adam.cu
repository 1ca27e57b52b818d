#include "backends/cuda/kernels/bodies.h"
#include "backends/cuda/kernels/optimizer.cuh"

namespace trainyard::cuda_kernels {
namespace {

template <class T>
struct AdamArguments {
  FlatArguments<T> flat;
  const float* grad;
  float *m, *v, *weight;
  Moments moments;
  double decay;
  bool decoupled;
};

// Adam with L2 regularisation (arXiv 1412.6980), or with decoupled decay (AdamW, Loshchilov and
// Hutter, arXiv 1711.05101, algorithm 2), on all tensors in one launch: a block has a chunk.
template <class T>
__global__ void adam_chunks(AdamArguments<T> g) {
  const Chunk chunk = g.flat.chunks[blockIdx.x];
  const StepScalars& s = *g.flat.scalars;
  const bool updates = chunk.tensor >= 0 && s.skip == 0;
  const Corrections corrections(s);
  const float rate = static_cast<float>(s.learning_rate);
  const double decay = chunk.decays ? g.decay : 0;
  const float in_gradient = g.decoupled ? 0.0F : static_cast<float>(decay);
  const float kept = g.decoupled ? static_cast<float>(1 - s.learning_rate * decay) : 1.0F;
  for_fours(chunk, g.flat.aligned, [&](std::int64_t at, std::int64_t count, bool packed) {
    Pack<float> weight = load<float>(g.weight + at, count, packed);
    if (updates) {
      const Pack<float> grad = load<float>(g.grad + at, count, packed);
      Pack<float> m = load<float>(g.m + at, count, packed);
      Pack<float> v = load<float>(g.v + at, count, packed);
      for (int j = 0; j < kFour; ++j) {
        const float gradient = grad.v[j] * corrections.scale + in_gradient * weight.v[j];
        weight.v[j] = kept * weight.v[j] -
                      rate * adam_direction(g.moments, corrections, gradient, m.v[j], v.v[j]);
      }
      store(m, g.m + at, count, packed);
      store(v, g.v + at, count, packed);
      store(weight, g.weight + at, count, packed);
    }
    if (g.flat.rounded != nullptr) store_rounded(weight.v, g.flat.rounded + at, count, packed);
  });
}

void adam_with(const CudaLaunch& launch, bool decoupled) {
  with_rounded(launch, 4, [&](auto* rounded) {
    using T = std::remove_pointer_t<decltype(rounded)>;
    const std::int64_t n = launch.spec.shape[0];
    const DeviceTensors& tensors = launch.state.tensors(launch.context, n);
    if (tensors.chunk_count == 0) return;
    AdamArguments<T> g{{tensors.chunks, launch.state.scalars(), rounded, false},
                       operand<const float>(launch, 0, 1, n).data,
                       operand<float>(launch, 1, 1, n).data,
                       operand<float>(launch, 2, 1, n).data,
                       operand<float>(launch, 3, 1, n).data,
                       moments_of(launch.context),
                       launch.context.weight_decay,
                       decoupled};
    g.flat.aligned = on_16_bytes(g.grad) && on_16_bytes(g.m) && on_16_bytes(g.v) &&
                     on_16_bytes(g.weight) && on_16_bytes(rounded);
    run_on(block_a_chunk(launch, tensors), adam_chunks<T>, g);
  });
}

}  // namespace

void adam(const CudaLaunch& launch) { adam_with(launch, false); }
void adamw(const CudaLaunch& launch) { adam_with(launch, true); }

}  // namespace trainyard::cuda_kernels
