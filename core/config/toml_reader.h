#pragma once
#include <filesystem>
#include <optional>
#include <string>

#include "core/config/value.h"

namespace trainyard {

inline constexpr std::size_t kLargestScenario = 4 << 20;  // bytes

// Parses one TOML 1.0 file of at most 4 MiB. Throws ConfigError with one message for a file that
// cannot be read, is too large, is not text, breaks the syntax, or holds no key.
Table read_toml(const std::filesystem::path& path);

// Reads `text` as one TOML value (number, boolean, string, list, …); nothing if it is not one.
std::optional<Value> parse_toml_value(std::string_view text, const Where& where);

}  // namespace trainyard
