#include "core/random.h"

#include <cmath>
#include <numbers>

namespace trainyard {
namespace {

// Finalizer of SplitMix64 (Steele, Lea and Flood, OOPSLA 2014).
std::uint64_t mix(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15ULL;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

// In (0, 1]: the logarithm of it is finite.
double positive_uniform(std::uint32_t high, std::uint32_t low) {
  const std::uint64_t bits = (std::uint64_t{high} << 32 | low) >> 11;
  return static_cast<double>(bits + 1) * 0x1p-53;
}

}  // namespace

PhiloxKey random_key(std::uint64_t seed, std::string_view name) {
  std::uint64_t hash = mix(seed);
  for (const char c : name) hash = mix(hash ^ static_cast<unsigned char>(c));
  return {static_cast<std::uint32_t>(hash), static_cast<std::uint32_t>(hash >> 32)};
}

PhiloxKey dropout_key(std::uint64_t seed, std::int64_t step, std::uint32_t site) {
  const std::uint64_t hash = mix(mix(mix(seed) ^ static_cast<std::uint64_t>(step)) ^ site);
  return {static_cast<std::uint32_t>(hash), static_cast<std::uint32_t>(hash >> 32)};
}

std::array<double, 2> random_normals(PhiloxKey key, std::uint64_t pair) {
  const PhiloxBlock words = philox(key, pair);
  const double radius = std::sqrt(-2 * std::log(positive_uniform(words[0], words[1])));
  const double angle = 2 * std::numbers::pi * positive_uniform(words[2], words[3]);
  return {radius * std::cos(angle), radius * std::sin(angle)};
}

}  // namespace trainyard
