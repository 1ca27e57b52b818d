#pragma once
#include <algorithm>
#include <cstdint>

namespace trainyard {

// A span of time, in ns, in which work goes slower.
struct Window {
  std::int64_t from = 0, to = 0;
};

// End of `work` ns that start at `start`, when it takes `factor` times as long inside `window`.
inline std::int64_t stretch(std::int64_t start, std::int64_t work, Window window, double factor) {
  const std::int64_t plain = start + work;
  if (start >= window.to || plain <= window.from) return plain;
  const std::int64_t begin = std::max(start, window.from);
  const std::int64_t rest = plain - begin;
  const double room = static_cast<double>(window.to - begin);
  if (static_cast<double>(rest) * factor <= room)
    return begin + static_cast<std::int64_t>(static_cast<double>(rest) * factor + 0.5);
  return window.to + rest - static_cast<std::int64_t>(room / factor + 0.5);
}

}  // namespace trainyard
