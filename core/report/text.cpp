#include "core/report/text.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

namespace trainyard {

std::string grouped(std::int64_t number) {
  std::string digits = std::to_string(number);
  const std::ptrdiff_t first = number < 0 ? 1 : 0;
  for (auto at = static_cast<std::ptrdiff_t>(digits.size()) - 3; at > first; at -= 3)
    digits.insert(static_cast<std::size_t>(at), 1, ',');
  return digits;
}

std::string gib(Bytes bytes) {
  return fmt::format("{:.2f}", static_cast<double>(bytes.value) / kGiB);
}

namespace {

// The number with `digits` decimals; what rounds to zero has no sign.
std::string fixed(double number, int digits, bool sign = false) {
  const double unit = std::pow(10.0, -digits);
  if (std::abs(number) < unit / 2) number = 0;
  return sign ? fmt::format("{:+.{}f}", number, digits) : fmt::format("{:.{}f}", number, digits);
}

}  // namespace

std::string TimeUnit::text(double seconds) const { return fixed(seconds * (milli_ ? 1e3 : 1), 3); }

std::string TimeUnit::signed_text(double seconds) const {
  return fixed(seconds * (milli_ ? 1e3 : 1), 3, true);
}

std::string percent(double part) { return fixed(part * 100, 1); }

std::string TextTable::text() const {
  std::vector<std::size_t> widths;
  for (const auto& cells : rows_) {
    if (cells.size() < 2) continue;
    widths.resize(std::max(widths.size(), cells.size()));
    for (std::size_t i = 0; i < cells.size(); ++i) widths[i] = std::max(widths[i], cells[i].size());
  }
  std::string out;
  for (const auto& cells : rows_) {
    std::string line;
    for (std::size_t i = 0; i < cells.size(); ++i) {
      if (cells.size() == 1)
        line = cells[0];
      else if (i == 0)
        line += fmt::format("{:<{}}", cells[i], widths[i]);
      else
        line += fmt::format("  {:>{}}", cells[i], widths[i]);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    out += line + "\n";
  }
  return out;
}

}  // namespace trainyard
