#pragma once
#include <optional>
#include <string_view>

#include "core/types.h"

namespace trainyard {

inline constexpr std::string_view kSizeUnits = "B, KB, MB, GB, TB, KiB, MiB, GiB, TiB";
inline constexpr std::string_view kTimeUnits = "ns, us, ms, s, min, h, d";

// A decimal number and nothing else: finite, no hexadecimal, no spaces.
std::optional<double> parse_number(std::string_view text);

// "80GiB", "1.5 MB": a non-negative number and one of kSizeUnits.
std::optional<Bytes> parse_size(std::string_view text);

// "10s", "3.5us", "2h": a non-negative number and one of kTimeUnits, below 290 years.
std::optional<Time> parse_time(std::string_view text);

}  // namespace trainyard
