#pragma once
#include <string_view>

namespace trainyard {

// The length in bytes of the piece that `text` (not empty) starts with, by the pattern with which
// GPT-2 splits text before merging:
//   's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
// A byte that is not valid UTF-8 counts as a symbol of its own.
std::size_t gpt2_word(std::string_view text);

}  // namespace trainyard
