#include "core/config/value.h"

#include <fmt/format.h>

#include <array>

namespace trainyard {

std::string Where::text() const {
  return line == 0 ? file : fmt::format("{}:{}:{}", file, line, column);
}

std::string_view Value::type() const {
  static constexpr std::array<std::string_view, 7> kTypes{
      "a boolean", "an integer", "a number", "a string", "a list", "a table", "a date or time"};
  return kTypes[data.index()];
}

std::string Value::text() const {
  if (auto* flag = as<bool>()) return *flag ? "true" : "false";
  if (auto* integer = as<std::int64_t>()) return fmt::format("{}", *integer);
  if (auto* number = as<double>()) return fmt::format("{}", *number);
  if (auto* string = as<std::string>()) return fmt::format("\"{}\"", printable(*string));
  if (auto* list = as<List>()) {
    std::string out = "[";
    for (std::size_t i = 0; i < list->size(); ++i) {
      if (i == 6 || out.size() > 60) {
        out += fmt::format(", … {} items", list->size());
        break;
      }
      out += (i ? ", " : "") + (*list)[i].text();
    }
    return out + "]";
  }
  return as<Table>() ? "{…}" : "a date or time";
}

std::string printable(std::string_view text, std::size_t limit) {
  std::string out;
  for (char c : text) {
    if (out.size() >= limit) return out + "…";
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte >= 0x7f)
      out += fmt::format("\\x{:02x}", byte);
    else
      out += c;
  }
  return out;
}

}  // namespace trainyard
