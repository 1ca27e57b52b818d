#pragma once
#include <cstdint>
#include <string_view>

#include "core/random.h"

namespace trainyard {

// A pseudo-random order of 0 … size-1 that is computed, not stored: a Feistel network over the next
// even power of two, walked along its cycles until it falls below `size` (Black and Rogaway,
// "Ciphers with arbitrary finite domains", CT-RSA 2002).
class Permutation {
 public:
  // `size` in 1 … 2^62.
  Permutation(PhiloxKey key, std::int64_t size);
  // Where `index` of 0 … size-1 goes.
  std::int64_t operator()(std::int64_t index) const;
  std::int64_t size() const { return size_; }

 private:
  std::uint64_t encipher(std::uint64_t value) const;

  PhiloxKey key_;
  std::int64_t size_;
  int half_bits_;
};

}  // namespace trainyard
