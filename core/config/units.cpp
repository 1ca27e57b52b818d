#include "core/config/units.h"

#include <charconv>
#include <cmath>
#include <span>

namespace trainyard {
namespace {

struct NamedUnit {
  std::string_view name;
  double size;
};

constexpr NamedUnit kSizes[] = {
    {"B", 1},     {"KB", 1e3},    {"kB", 1e3},       {"MB", 1e6},   {"GB", 1e9},
    {"TB", 1e12}, {"KiB", 1024.}, {"MiB", 1048576.}, {"GiB", kGiB}, {"TiB", 1024 * kGiB}};
constexpr NamedUnit kTimes[] = {{"ns", 1},     {"us", 1e3},   {"ms", 1e6},   {"s", 1e9},
                                {"min", 6e10}, {"h", 3.6e12}, {"d", 8.64e13}};

std::optional<std::int64_t> parse_with_unit(std::string_view text,
                                            std::span<const NamedUnit> units) {
  const std::size_t digits = text.find_last_of("0123456789.");
  if (digits == std::string_view::npos) return std::nullopt;
  const auto number = parse_number(text.substr(0, digits + 1));
  std::string_view name = text.substr(digits + 1);
  while (name.starts_with(' ')) name.remove_prefix(1);
  for (const NamedUnit& unit : units) {
    if (unit.name != name || !number) continue;
    const double value = *number * unit.size;
    if (value < 0 || value > 9.1e18) return std::nullopt;
    return std::llround(value);
  }
  return std::nullopt;
}

}  // namespace

std::optional<double> parse_number(std::string_view text) {
  double value = 0;
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || rest != end || !std::isfinite(value)) return std::nullopt;
  return value;
}

std::optional<Bytes> parse_size(std::string_view text) {
  const auto value = parse_with_unit(text, kSizes);
  return value ? std::optional<Bytes>{Bytes{*value}} : std::nullopt;
}

std::optional<Time> parse_time(std::string_view text) {
  const auto value = parse_with_unit(text, kTimes);
  return value ? std::optional<Time>{Time{*value}} : std::nullopt;
}

}  // namespace trainyard
