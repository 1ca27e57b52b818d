#include "backends/cuda/kernels/bodies.h"
#include "backends/cuda/kernels/device.cuh"

namespace trainyard::cuda_kernels {
namespace {

constexpr std::int64_t kHeads = 8;  // that share an angle

template <class T>
struct RopeArguments {
  View<T> qkv;
  OwnPlaces places;
  std::int64_t heads, half;
  double base;
  float direction;
};

// Rotates (x[i], x[i + dim/2]) of every query and key head by place * base^(-2i/dim), the pairing
// that Llama checkpoints use (Su et al., arXiv 2104.09864, equation 34); direction -1 turns back.
// A thread has one i of one place: the angle, in double as places times one radian leave fp32 few
// digits, is computed once for several heads of all sequences. Neighbouring threads have
// neighbouring i.
template <class T>
__global__ void rotate_places(RopeArguments<T> g) {
  const std::int64_t number = thread_number();
  const std::int64_t own = number / g.half, i = number % g.half;
  if (own >= g.places.own) return;
  const double exponent = -static_cast<double>(i) / static_cast<double>(g.half);
  double sine, cosine;
  sincos(static_cast<double>(g.places.at(own)) * pow(g.base, exponent), &sine, &cosine);
  const float s = g.direction * static_cast<float>(sine), c = static_cast<float>(cosine);
  const std::int64_t first = blockIdx.y * kHeads;
  const std::int64_t end = first + kHeads < g.heads ? first + kHeads : g.heads;
  for (std::int64_t row = own; row < g.qkv.rows; row += g.places.own) {
    for (std::int64_t head = first; head < end; ++head) {
      T* const at = g.qkv.row(row) + head * 2 * g.half;
      const float a = to_float(at[i]), b = to_float(at[i + g.half]);
      at[i] = from_float<T>(a * c - b * s);
      at[i + g.half] = from_float<T>(b * c + a * s);
    }
  }
}

void rotate(const CudaLaunch& launch, float direction) {
  with_storage(launch, launch.spec.dtype, [&](auto type) {
    using T = decltype(type);
    const auto& s = launch.spec.shape;
    const std::int64_t heads = s[1] + s[2], dim = s[3];
    expect(launch, dim % 2 == 0, "rotary positions need an even head size");
    RopeArguments<T> g{operand<T>(launch, 0, s[0], (heads + s[2]) * dim),
                       own_places(launch.context, s[4] * launch.context.context_size),
                       heads,
                       dim / 2,
                       launch.spec.parameter,
                       direction};
    Place place = threads_for(launch, g.places.own * g.half);
    place.blocks.y = static_cast<unsigned>((heads + kHeads - 1) / kHeads);
    run_on(place, rotate_places<T>, g);
  });
}

}  // namespace

void rope_forward(const CudaLaunch& launch) { rotate(launch, 1); }
void rope_backward(const CudaLaunch& launch) { rotate(launch, -1); }

}  // namespace trainyard::cuda_kernels
