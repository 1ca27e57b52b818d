#pragma once
#include <array>
#include <cstdint>
#include <string_view>

namespace trainyard {

// Random numbers by key and index: a draw depends on nothing but what names it, so the layout of a
// run shifts nobody's draws.

using PhiloxKey = std::array<std::uint32_t, 2>;
using PhiloxBlock = std::array<std::uint32_t, 4>;

// Philox4x32-10 (Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3",
// SC 2011): four independent words for each 128-bit counter.
constexpr PhiloxBlock philox(PhiloxKey key, PhiloxBlock counter) {
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t a = 0xD2511F53ULL * counter[0], b = 0xCD9E8D57ULL * counter[2];
    counter = {
        static_cast<std::uint32_t>(b >> 32) ^ counter[1] ^ key[0], static_cast<std::uint32_t>(b),
        static_cast<std::uint32_t>(a >> 32) ^ counter[3] ^ key[1], static_cast<std::uint32_t>(a)};
    key[0] += 0x9E3779B9U;
    key[1] += 0xBB67AE85U;
  }
  return counter;
}

constexpr PhiloxBlock philox(PhiloxKey key, std::uint64_t index, std::uint64_t sub = 0) {
  return philox(key, {static_cast<std::uint32_t>(index), static_cast<std::uint32_t>(index >> 32),
                      static_cast<std::uint32_t>(sub), static_cast<std::uint32_t>(sub >> 32)});
}

// The key of everything drawn under `name` from the run's seed.
PhiloxKey random_key(std::uint64_t seed, std::string_view name);

// In [0, 1), a multiple of 2^-32: exact in fp64.
constexpr double to_uniform(std::uint32_t word) { return word * 0x1p-32; }

// Draws of one dropout: step of the run, and site of the model (KernelSpec::site).
PhiloxKey dropout_key(std::uint64_t seed, std::int64_t step, std::uint32_t site);

// Words of columns 4 block … 4 block + 3. `sample` is the sequence's number in the global batch,
// `row` the place in the sequence, or head * sequence + query for attention probabilities, with
// the model's numbering of heads. An element is kept where word >= dropout_threshold(p).
constexpr PhiloxBlock dropout_words(PhiloxKey key, std::uint64_t sample, std::uint64_t row,
                                    std::uint64_t block) {
  return philox(key,
                {static_cast<std::uint32_t>(block), static_cast<std::uint32_t>(row),
                 static_cast<std::uint32_t>(sample), static_cast<std::uint32_t>(sample >> 32)});
}

// Number of words out of 2^32 that drop an element; p in [0, 1).
constexpr std::uint32_t dropout_threshold(double p) {
  return static_cast<std::uint32_t>(p * 0x1p32);
}

// Standard normal numbers 2 * pair and 2 * pair + 1 of a key, by Box and Muller's transform of
// 53-bit uniforms.
std::array<double, 2> random_normals(PhiloxKey key, std::uint64_t pair);

inline double random_normal(PhiloxKey key, std::uint64_t index) {
  return random_normals(key, index / 2)[index % 2];
}

}  // namespace trainyard
