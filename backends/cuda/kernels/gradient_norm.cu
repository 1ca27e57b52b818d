#include "backends/cuda/kernels/bodies.h"
#include "backends/cuda/kernels/kernels.h"
#include "backends/cuda/kernels/optimizer.cuh"

namespace trainyard::cuda_kernels {
namespace {

struct SquaresArguments {
  const Chunk* chunks;
  const float* grad;
  double* partial;  // of each chunk: sum of squares, number of values that are not finite
  bool aligned;
};

__global__ void square_chunks(SquaresArguments g) {
  const Chunk chunk = g.chunks[blockIdx.x];
  double squares = 0, overflows = 0;
  if (chunk.in_gradient_norm)
    for_fours(chunk, g.aligned, [&](std::int64_t at, std::int64_t count, bool packed) {
      const Pack<float> x = load<float>(g.grad + at, count, packed);
      for (int j = 0; j < kFour; ++j) {
        squares += static_cast<double>(x.v[j]) * static_cast<double>(x.v[j]);
        overflows += isfinite(x.v[j]) ? 0 : 1;
      }
    });
  write_partial(squares, overflows, g.partial);
}

// One block adds the chunks, in a fixed order.
__global__ void add_squares(const double* partial, std::int64_t chunks, float* norm) {
  double squares = 0, overflows = 0;
  for (std::int64_t c = threadIdx.x; c < chunks; c += kThreads) {
    squares += partial[2 * c];
    overflows += partial[2 * c + 1];
  }
  squares = block_sum(squares);
  overflows = block_sum(overflows);
  if (threadIdx.x != 0) return;
  norm[0] += static_cast<float>(squares);
  norm[1] += static_cast<float>(overflows);
}

struct ClipArguments {
  View<float> grad;  // one row
  const float* norm;
  const StepScalars* scalars;
  double most;
  bool packed;
};

// The norm of gradients that carry a loss scale is compared without it. A norm that is no number
// scales nothing: such a step is skipped, or its loss tells.
__global__ void clip_packs(ClipArguments g) {
  const double norm = sqrt(static_cast<double>(g.norm[0])) * g.scalars->gradient_scale;
  if (!isfinite(norm) || norm <= g.most) return;
  const float factor = static_cast<float>(g.most / norm);
  const std::int64_t at = std::int64_t{thread_number()} * kFour;
  if (at >= g.grad.columns) return;
  Pack<float> x = load<float>(g.grad.data + at, g.grad.columns - at, g.packed);
  for (int j = 0; j < kFour; ++j) x.v[j] *= factor;
  store(x, g.grad.data + at, g.grad.columns - at, g.packed);
}

__global__ void flag_overflow(const float* norm, StepScalars* scalars) {
  const double length = sqrt(static_cast<double>(norm[0])) * scalars->gradient_scale;
  if (norm[1] > 0 || !isfinite(length)) scalars->skip = 1;
}

}  // namespace

void grad_norm(const CudaLaunch& launch) {
  const std::int64_t n = launch.spec.shape[0];
  const DeviceTensors& tensors = launch.state.tensors(launch.context, n);
  auto* const partial = static_cast<double*>(
      launch.state.scratch(static_cast<std::size_t>(tensors.chunk_count) * 2 * sizeof(double)));
  const float* const grad = operand<const float>(launch, 0, 1, n).data;
  float* const norm = operand<float>(launch, 1, 1, 2).data;
  if (tensors.chunk_count == 0) return;
  run_on(block_a_chunk(launch, tensors), square_chunks,
         SquaresArguments{tensors.chunks, grad, partial, on_16_bytes(grad)});
  run_on(Place{dim3(1), dim3(kThreads), launch.stream, 0}, add_squares, partial,
         tensors.chunk_count, norm);
}

void grad_clip(const CudaLaunch& launch) {
  const std::int64_t n = launch.spec.shape[0];
  ClipArguments g{operand<float>(launch, 0, 1, n), operand<const float>(launch, 1, 1, 2).data,
                  launch.state.scalars(), launch.spec.parameter, false};
  g.packed = has_packs(g.grad);
  expect(launch, (n + kFour - 1) / kFour < (std::int64_t{1} << 32), "has 2^32 packs or more");
  run_on(threads_for(launch, (n + kFour - 1) / kFour), clip_packs, g);
}

}  // namespace trainyard::cuda_kernels

namespace trainyard {

void check_overflow(const Matrix& norm, StepScalars* scalars, cudaStream_t stream) {
  cuda_kernels::run_on(cuda_kernels::Place{dim3(1), dim3(1), stream, 0},
                       cuda_kernels::flag_overflow, static_cast<const float*>(norm.data), scalars);
}

}  // namespace trainyard
