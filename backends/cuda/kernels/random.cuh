#pragma once
#include "backends/cuda/kernels/device.cuh"

namespace trainyard::cuda_kernels {

// The draws of core/random.h, on the device: the same bits for the same seed, step, site and place.

struct DrawKey {
  std::uint32_t a, b;
};

__device__ inline std::uint64_t mix_bits(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15ULL;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

__device__ inline uint4 philox_words(DrawKey key, uint4 counter) {
  for (int round = 0; round < 10; ++round) {
    const std::uint32_t a = __umulhi(0xD2511F53U, counter.x), low_a = 0xD2511F53U * counter.x;
    const std::uint32_t b = __umulhi(0xCD9E8D57U, counter.z), low_b = 0xCD9E8D57U * counter.z;
    counter = make_uint4(b ^ counter.y ^ key.a, low_b, a ^ counter.w ^ key.b, low_a);
    key.a += 0x9E3779B9U;
    key.b += 0xBB67AE85U;
  }
  return counter;
}

// One dropout of the model. The step is read on the device.
struct Draws {
  const StepScalars* scalars = nullptr;
  std::uint64_t seed = 0;
  std::uint32_t site = 0, threshold = 0;
  float scale = 1;  // 1 / (1 - p)

  __device__ DrawKey key() const {
    const std::uint64_t step = static_cast<std::uint64_t>(scalars->step);
    const std::uint64_t hash = mix_bits(mix_bits(mix_bits(seed) ^ step) ^ site);
    return {static_cast<std::uint32_t>(hash), static_cast<std::uint32_t>(hash >> 32)};
  }
};

inline Draws draws_of(const CudaLaunch& launch) {
  const double p = launch.spec.parameter;
  return {launch.state.scalars(), launch.context.seed, launch.spec.site,
          static_cast<std::uint32_t>(p * 0x1p32), static_cast<float>(1 / (1 - p))};
}

// Where a row is: its sequence among all of the global batch, and its place in it.
struct RowPlace {
  std::int64_t sample, place;
};

// Words of columns 4 block … 4 block + 3 of a row.
__device__ inline uint4 draw_words(DrawKey key, RowPlace at, std::uint32_t block) {
  const std::uint64_t sample = static_cast<std::uint64_t>(at.sample);
  return philox_words(key, make_uint4(block, static_cast<std::uint32_t>(at.place),
                                      static_cast<std::uint32_t>(sample),
                                      static_cast<std::uint32_t>(sample >> 32)));
}

// keep[j] = whether column first + j is kept; first is a multiple of 4.
template <int N>
__device__ void draw_mask(const Draws& draws, DrawKey key, RowPlace at, std::uint32_t first,
                          std::uint8_t (&keep)[N]) {
  for (int j = 0; j < N; j += 4) {
    const uint4 words = draw_words(key, at, first / 4 + static_cast<std::uint32_t>(j) / 4);
    keep[j] = words.x >= draws.threshold;
    keep[j + 1] = words.y >= draws.threshold;
    keep[j + 2] = words.z >= draws.threshold;
    keep[j + 3] = words.w >= draws.threshold;
  }
}

// Tokens behind the rows of an activation: all of the micro-batch in order, or a sequence shard,
// which holds the rank's share of each of `parts` row blocks.
struct TokenRows {
  OwnPlaces places;
  std::int64_t first_sample = 0;
  std::int64_t part = 1, mine = 1, offset = 0;  // rows of a part, of the rank's share, before it

  __device__ RowPlace at(std::int64_t row) const {
    const std::int64_t token = row / mine * part + offset + row % mine;
    return {first_sample + token / places.own, places.at(token % places.own)};
  }
  // Row of a token, -1 where another rank has it.
  __device__ std::int64_t row_of(std::int64_t token) const {
    const std::int64_t within = token % part - offset;
    return within < 0 || within >= mine ? -1 : token / part * mine + within;
  }
};

inline TokenRows token_rows(const CudaLaunch& launch, std::int64_t rows) {
  const KernelContext& c = launch.context;
  expect(launch, c.sequence > 0 && (rows == c.tokens || rows * c.tensor_size == c.tokens),
         "rows are neither all tokens nor a shard of them");
  const OwnPlaces places = own_places(c, c.sequence);
  if (rows == c.tokens) return {places, c.first_sample, rows, rows, 0};
  const std::int64_t mine = c.tokens / (c.tensor_size * c.parts);
  return {places, c.first_sample, c.tokens / c.parts, mine, c.tensor_rank * mine};
}

}  // namespace trainyard::cuda_kernels
