#include "tools/trainyard/grid.h"

#include <fmt/core.h>

#include <charconv>

#include "core/config/schema.h"
#include "core/error.h"

namespace trainyard {
namespace {

constexpr std::size_t kMostPoints = 1'000'000;

bool parse_integer(std::string_view text, std::int64_t& out) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  return error == std::errc() && end == text.data() + text.size();
}

// Appends what one word between commas stands for.
void append_values(const std::string& word, const std::string& text,
                   std::vector<std::string>& values) {
  const std::size_t dots = word.find("..");
  std::int64_t first = 0, last = 0;
  if (dots == std::string::npos) {
    if (word.empty()) throw ConfigError(fmt::format("--over {}: an empty value", text));
    values.push_back(word);
    return;
  }
  if (!parse_integer(std::string_view(word).substr(0, dots), first) ||
      !parse_integer(std::string_view(word).substr(dots + 2), last) || first > last ||
      last - first >= static_cast<std::int64_t>(kMostPoints))
    throw ConfigError(
        fmt::format("--over {}: \"{}\" is no range of integers such as 1..16", text, word));
  for (std::int64_t value = first; value <= last; ++value) values.push_back(std::to_string(value));
}

}  // namespace

GridAxis parse_axis(const std::string& text) {
  const std::size_t equals = text.find('=');
  if (equals == std::string::npos)
    throw ConfigError(fmt::format("--over {}: must be KEY=VALUES", text));
  GridAxis axis{text.substr(0, equals), {}};
  if (find_row(axis.key) == nullptr)
    throw ConfigError(
        fmt::format("--over {}: there is no key {}; `trainyard schema` lists all", text, axis.key));
  std::size_t at = equals + 1;
  while (true) {
    const std::size_t comma = text.find(',', at);
    append_values(text.substr(at, comma - at), text, axis.values);
    if (comma == std::string::npos) return axis;
    at = comma + 1;
  }
}

Grid::Grid(std::vector<GridAxis> axes) : axes_(std::move(axes)) {
  for (const GridAxis& axis : axes_) {
    size_ *= axis.values.size();
    if (size_ > kMostPoints)
      throw ConfigError(fmt::format("the grid has more than {} points", kMostPoints));
  }
}

std::vector<std::string> Grid::at(std::size_t point) const {
  std::vector<std::string> out(axes_.size());
  for (std::size_t i = axes_.size(); i-- > 0;) {
    out[i] = axes_[i].values[point % axes_[i].values.size()];
    point /= axes_[i].values.size();
  }
  return out;
}

}  // namespace trainyard
