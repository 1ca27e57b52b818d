#pragma once
#include "backends/cuda/kernels/device.cuh"

namespace trainyard::cuda_kernels {

// Coefficients of Adam's moments (Kingma and Ba, arXiv 1412.6980, algorithm 1).
struct Moments {
  float beta1, beta2, keep1, keep2, epsilon;
};

inline Moments moments_of(const KernelContext& c) {
  return {static_cast<float>(c.beta1), static_cast<float>(c.beta2), static_cast<float>(1 - c.beta1),
          static_cast<float>(1 - c.beta2), static_cast<float>(c.epsilon)};
}

struct Corrections {
  float scale, correct1, correct2;
  __device__ explicit Corrections(const StepScalars& s)
      : scale(static_cast<float>(s.gradient_scale)),
        correct1(static_cast<float>(s.correct1)),
        correct2(static_cast<float>(s.correct2)) {}
};

// Updates m and v with the unscaled gradient and returns mhat / (sqrt(vhat) + eps).
__device__ inline float adam_direction(const Moments& k, const Corrections& s, float gradient,
                                       float& m, float& v) {
  m = k.beta1 * m + k.keep1 * gradient;
  v = k.beta2 * v + k.keep2 * gradient * gradient;
  return m * s.correct1 / (sqrtf(v * s.correct2) + k.epsilon);
}

inline constexpr int kFour = kPack<float>;

// Stores up to four weights, rounded to the storage type of training.
template <class T>
__device__ void store_rounded(const float (&from)[kFour], T* to, std::int64_t count, bool packed) {
  struct alignas(kFour * sizeof(T)) Four {
    T v[kFour];
  } four;
  for (int j = 0; j < kFour; ++j) four.v[j] = from_float<T>(from[j]);
  if (packed && count >= kFour) {
    *reinterpret_cast<Four*>(to) = four;
  } else {
    for (int j = 0; j < kFour; ++j)
      if (j < count) to[j] = four.v[j];
  }
}

// Flat operands of fp32 and where the rounded weights go (null: fp32 training has none).
template <class T>
struct FlatArguments {
  const Chunk* chunks;
  const StepScalars* scalars;
  T* rounded;
  bool aligned;  // all operands begin on 16 bytes
};

// Calls use(first, count, packed) for the fours of a block's chunk.
template <class Use>
__device__ void for_fours(const Chunk& chunk, bool aligned, Use use) {
  const bool packed = aligned && chunk.first % kFour == 0;
  for (std::int64_t i = std::int64_t{threadIdx.x} * kFour; i < chunk.elements;
       i += std::int64_t{blockDim.x} * kFour)
    use(chunk.first + i, chunk.elements - i, packed);
}

// Adds the block's sums of two values to a chunk's place in `partial`.
__device__ inline void write_partial(double a, double b, double* partial) {
  a = block_sum(a);
  b = block_sum(b);
  if (threadIdx.x != 0) return;
  partial[2 * std::int64_t{blockIdx.x}] = a;
  partial[2 * std::int64_t{blockIdx.x} + 1] = b;
}

inline Place block_a_chunk(const CudaLaunch& launch, const DeviceTensors& tensors) {
  return {dim3(static_cast<unsigned>(tensors.chunk_count)), dim3(kThreads), launch.stream, 0};
}

inline bool on_16_bytes(const void* data) {
  return reinterpret_cast<std::uintptr_t>(data) % 16 == 0;
}

// Calls f(rounded weights, or null) with the type of operand `index`, fp32 if there is none.
template <class F>
void with_rounded(const CudaLaunch& launch, std::size_t index, F f) {
  if (!has_operand(launch, index)) return f(static_cast<float*>(nullptr));
  with_storage(launch, launch.operands[index].dtype, [&](auto type) {
    f(operand<decltype(type)>(launch, index, 1, launch.spec.shape[0]).data);
  });
}

}  // namespace trainyard::cuda_kernels
