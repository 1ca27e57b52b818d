#pragma once
#include <filesystem>
#include <vector>

#include "backends/common/token_file.h"

namespace trainyard {

// What the .idx of Megatron-LM's indexed data set says about its .bin.
struct MegatronIndex {
  TokenType type{};
  std::int64_t tokens = 0;
  std::vector<std::int64_t> documents;  // first token of each, ascending; {0} if there is none
};

// Throws ConfigError naming file, offset, what was expected and what is there. Sequences have to
// follow one another in the .bin without gaps.
MegatronIndex read_megatron_index(const std::filesystem::path& path);

}  // namespace trainyard
