#include "backends/cuda/silent_ranks.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <vector>

#include "backends/common/patience.h"

namespace trainyard {
namespace {

std::string key_of(std::int32_t rank) { return fmt::format("failed/{}", rank); }

}  // namespace

std::string where_all_are(Store& store, const OwnPlace& own, const std::string& position,
                          const std::string& dump) try {
  store.set(key_of(static_cast<std::int32_t>(index(own.rank))), position + "\n" + dump);
  std::vector<std::optional<std::string>> said(static_cast<std::size_t>(own.ranks));
  constexpr std::chrono::milliseconds kLeast = std::chrono::seconds(3);
  for (Patience patience(std::max(kLeast, own.timeout / 8));; patience.rest()) {
    bool all = true;
    for (std::int32_t r = 0; r < own.ranks; ++r) {
      auto& text = said[static_cast<std::size_t>(r)];
      if (!text) text = store.get(key_of(r));
      all &= text.has_value();
    }
    if (all || patience.ended()) break;
  }
  std::string text, lines;
  std::vector<std::int32_t> silent;
  for (std::int32_t r = 0; r < own.ranks; ++r) {
    const auto& other = said[static_cast<std::size_t>(r)];
    if (!other) {
      silent.push_back(r);
      continue;
    }
    const std::size_t end = other->find('\n');
    if (r != index(own.rank)) text += fmt::format("; rank {} is {}", r, other->substr(0, end));
    lines += other->substr(end + 1);
  }
  if (!silent.empty())
    text += fmt::format("; {} {} silent: {}", silent.size() == 1 ? "rank" : "ranks",
                        silent.size() == 1 ? "is" : "are", fmt::join(silent, ", "));
  if (!lines.empty()) text += "\nlast instructions:\n" + lines;
  return text;
} catch (const std::exception& error) {
  return fmt::format("; the store does not tell of the other ranks: {}", error.what());
}

}  // namespace trainyard
