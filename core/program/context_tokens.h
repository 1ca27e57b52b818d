#pragma once
#include <cstdint>

namespace trainyard {

// Which tokens of a sequence each of its context ranks has. The sequence is cut in 2 c pieces, of
// which rank r has the r-th from either end: under causal attention all ranks then see equally many
// keys (arXiv 2407.21783, section 3.3).
struct ContextTokens {
  std::int64_t sequence = 0;  // tokens, of all ranks
  std::int64_t ranks = 1;

  constexpr std::int64_t own() const { return sequence / ranks; }
  constexpr std::int64_t piece() const { return own() / 2; }
  // Place in the sequence of token `i` of a rank's own.
  constexpr std::int64_t place(std::int64_t rank, std::int64_t i) const {
    if (ranks == 1) return i;
    return i < piece() ? rank * piece() + i : (2 * ranks - 1 - rank) * piece() + i - piece();
  }
  // Which rank has the token at `place`, and as which of its own.
  struct Holder {
    std::int64_t rank, index;
  };
  constexpr Holder holder(std::int64_t place) const {
    if (ranks == 1) return {0, place};
    const std::int64_t at = place / piece(), rest = place % piece();
    return at < ranks ? Holder{at, rest} : Holder{2 * ranks - 1 - at, piece() + rest};
  }
};

}  // namespace trainyard
