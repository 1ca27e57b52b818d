#pragma once
#include <cstdint>

namespace trainyard {

// A row of a batch has sequence + 1 tokens: position i reads token i and predicts token i + 1. A
// token that is no valid target (padding, the start of another document) is kept as its
// complement: below zero, so it does not count in the loss, yet still readable as an input.
constexpr std::int32_t not_a_target(std::int32_t token) { return -1 - token; }
constexpr bool is_target(std::int32_t id) { return id >= 0; }
constexpr std::int32_t input_token(std::int32_t id) { return id < 0 ? -1 - id : id; }

// Fills up rows that the data does not fill: token 0, and no target.
inline constexpr std::int32_t kPaddingToken = not_a_target(0);

}  // namespace trainyard
