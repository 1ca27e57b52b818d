#pragma once
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "tests/cuda_on_host/block.h"
#include "tests/cuda_on_host/include/vector_types.h"

// CUDA C++ as the host's compiler reads it: a variable in shared memory is one of the thread that
// runs the blocks.
#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __restrict__ __restrict
#define __shared__ thread_local
#define __align__(n) alignas(n)
#define __launch_bounds__(...)
#define __CUDA_ON_HOST__ 1

inline void __syncthreads(const std::source_location& where = std::source_location::current()) {
  trainyard::cuda_on_host::sync_threads(where);
}
inline void __syncwarp(unsigned mask = 0xffffffffU,
                       const std::source_location& where = std::source_location::current()) {
  trainyard::cuda_on_host::exchange(mask, 0, where);
}

namespace trainyard::cuda_on_host {

template <class T>
std::uint64_t to_word(T value) {
  static_assert(sizeof(T) <= 8 && std::is_trivially_copyable_v<T>);
  std::uint64_t word = 0;
  std::memcpy(&word, &value, sizeof(T));
  return word;
}
template <class T>
T from_word(std::uint64_t word) {
  T value;
  std::memcpy(&value, &word, sizeof(T));
  return value;
}
// sums += a b of a warp's tiles, whose fragments mma.m16n8k16 has (PTX ISA, 9.7.14.5.8). `convert`
// makes a number of an element's bits.
template <class Convert>
void multiply_tiles(float (&sums)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2],
                    Convert convert, const Where& where = Where::current()) {
  const std::uint32_t g = lane() / 4, t = lane() % 4;
  const auto number = [&](std::uint64_t words, std::uint32_t element) {
    return convert(static_cast<std::uint16_t>(words >> (16 * element)));
  };
  float left[2][16], right[2][16];  // rows g and g + 8; columns 2t and 2t + 1
  for (std::uint32_t half = 0; half < 2; ++half) {
    const std::uint64_t* const words =
        exchange(0xffffffffU, std::uint64_t{a[2 * half + 1]} << 32 | a[2 * half], where);
    for (std::uint32_t k = 0; k < 8; ++k)
      for (std::uint32_t row = 0; row < 2; ++row)
        left[row][8 * half + k] = number(words[4 * g + k / 2], 2 * row + k % 2);
  }
  const std::uint64_t* const words = exchange(0xffffffffU, std::uint64_t{b[1]} << 32 | b[0], where);
  for (std::uint32_t k = 0; k < 16; ++k)
    for (std::uint32_t column = 0; column < 2; ++column)
      right[column][k] = number(words[4 * (2 * t + column) + k % 8 / 2], k / 8 * 2 + k % 2);
  for (int i = 0; i < 4; ++i)
    for (int k = 0; k < 16; ++k) sums[i] += left[i / 2][k] * right[i % 2][k];
}

template <class T>
T of_lane(unsigned mask, T value, std::uint32_t from, const Where& where) {
  return from_word<T>(exchange(mask, to_word(value), where)[from % 32]);
}

}  // namespace trainyard::cuda_on_host

template <class T>
T __shfl_sync(unsigned mask, T value, int from,
              const std::source_location& where = std::source_location::current()) {
  return trainyard::cuda_on_host::of_lane(mask, value, static_cast<std::uint32_t>(from), where);
}
template <class T>
T __shfl_xor_sync(unsigned mask, T value, int bits,
                  const std::source_location& where = std::source_location::current()) {
  const std::uint32_t lane = trainyard::cuda_on_host::lane();
  return trainyard::cuda_on_host::of_lane(mask, value, lane ^ static_cast<std::uint32_t>(bits),
                                          where);
}
template <class T>
T __shfl_down_sync(unsigned mask, T value, unsigned by,
                   const std::source_location& where = std::source_location::current()) {
  const std::uint32_t lane = trainyard::cuda_on_host::lane();
  return trainyard::cuda_on_host::of_lane(mask, value, lane + by < 32 ? lane + by : lane, where);
}
inline unsigned __ballot_sync(unsigned mask, int predicate,
                              const std::source_location& where = std::source_location::current()) {
  const std::uint64_t* const votes =
      trainyard::cuda_on_host::exchange(mask, predicate != 0 ? 1 : 0, where);
  unsigned ballot = 0;
  for (unsigned i = 0; i < 32; ++i) ballot |= static_cast<unsigned>(votes[i]) << i;
  return ballot;
}

inline float rsqrtf(float x) { return 1 / std::sqrt(x); }
inline float __expf(float x) { return std::exp(x); }
inline float __logf(float x) { return std::log(x); }
inline int __popc(unsigned x) { return std::popcount(x); }
inline unsigned __umulhi(unsigned a, unsigned b) {
  return static_cast<unsigned>(std::uint64_t{a} * b >> 32);
}
inline float __uint_as_float(unsigned bits) { return std::bit_cast<float>(bits); }
inline unsigned __float_as_uint(float value) { return std::bit_cast<unsigned>(value); }
using std::isfinite;
