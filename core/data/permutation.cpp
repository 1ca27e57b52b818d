#include "core/data/permutation.h"

#include <algorithm>
#include <bit>

#include "core/error.h"

namespace trainyard {
namespace {

// Luby and Rackoff need four rounds for a pseudo-random permutation; small halves mix less.
constexpr std::uint64_t kRounds = 8;

}  // namespace

Permutation::Permutation(PhiloxKey key, std::int64_t size) : key_(key), size_(size) {
  check(size > 0 && size <= std::int64_t{1} << 62, "a permutation of {}", size);
  const int bits = std::bit_width(static_cast<std::uint64_t>(size - 1));
  half_bits_ = std::max(1, (bits + 1) / 2);
}

std::uint64_t Permutation::encipher(std::uint64_t value) const {
  const std::uint64_t mask = (std::uint64_t{1} << half_bits_) - 1;
  std::uint64_t left = value >> half_bits_, right = value & mask;
  for (std::uint64_t round = 0; round < kRounds; ++round) {
    const std::uint64_t mixed = left ^ (philox(key_, right, round)[0] & mask);
    left = right;
    right = mixed;
  }
  return left << half_bits_ | right;
}

std::int64_t Permutation::operator()(std::int64_t index) const {
  auto value = static_cast<std::uint64_t>(index);
  do value = encipher(value);
  while (value >= static_cast<std::uint64_t>(size_));
  return static_cast<std::int64_t>(value);
}

}  // namespace trainyard
