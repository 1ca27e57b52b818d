#include <fmt/format.h>

#include <cmath>

#include "core/config/schema.h"
#include "core/error.h"

namespace trainyard {
namespace {

std::string unit_of(const Row& row) {
  if (row.key.ends_with("_gbps")) return "Gbit/s";
  if (row.key.ends_with("_gbs")) return "GB/s";
  if (row.key.ends_with("_tflops")) return "TFLOP/s";
  if (row.key.ends_with("_us")) return "us";
  if (row.key.ends_with("_ms")) return "ms";
  if (row.key.ends_with("_s")) return "s";
  return row.type == "size" ? "bytes" : "";
}

std::string default_of(const Row& row) {
  if (row.required) return "required";
  const std::string shown = row.derived ? "" : row.show(row, Job{});
  return shown.empty() || shown == "\"\"" ? "none" : shown;
}

std::string limits_of(const Row& row) {
  if (!row.choices.empty()) {
    std::string names;
    for (const ChoiceText& choice : row.choices)
      names += (names.empty() ? "" : " | ") + choice.name;
    return names;
  }
  if (std::isinf(row.low)) return "";
  return std::isinf(row.high) ? fmt::format(">= {}", row.low)
                              : fmt::format("{} .. {}", row.low, row.high);
}

std::string section_of(const std::string& key) {
  const std::size_t dot = key.rfind('.');
  return dot == std::string::npos ? "" : key.substr(0, dot);
}

std::string plain_line(const Row& row) {
  std::string out = fmt::format("{}\n    {}\n    {}", row.key, row.doc, row.type);
  if (const std::string unit = unit_of(row); !unit.empty()) out += fmt::format(" in {}", unit);
  if (const std::string limits = limits_of(row); !limits.empty())
    out += fmt::format(", {}", limits);
  return out + fmt::format("; default {}\n", default_of(row));
}

std::string markdown_cell(const std::string& text) {
  std::string out;
  for (char c : text) out += c == '|' ? std::string("\\|") : std::string(1, c);
  return out;
}

std::string markdown_line(const Row& row) {
  std::string type = row.type;
  if (const std::string unit = unit_of(row); !unit.empty()) type += ", " + unit;
  const std::size_t dot = row.key.rfind('.');
  const std::string name = dot == std::string::npos ? row.key : row.key.substr(dot + 1);
  return fmt::format("| `{}` | {} | {} | {} | {} |\n", name, type, markdown_cell(default_of(row)),
                     markdown_cell(limits_of(row)), markdown_cell(row.doc));
}

}  // namespace

std::string describe_schema(TextFormat format, std::string_view section) {
  std::string out, last = "?";
  for (const Row& row : schema()) {
    if (!row.key.starts_with(section)) continue;
    if (const std::string here = section_of(row.key); here != last) {
      last = here;
      const std::string title = here.empty() ? "top level" : "[" + here + "]";
      out += format == TextFormat::plain
                 ? fmt::format("{}{}\n", out.empty() ? "" : "\n", title)
                 : fmt::format(
                       "{}### {}\n\n| key | type | default | legal | meaning |\n"
                       "|---|---|---|---|---|\n",
                       out.empty() ? "" : "\n", title);
    }
    out += format == TextFormat::plain ? plain_line(row) : markdown_line(row);
  }
  return out;
}

std::string describe_choices(std::string_view key) {
  const Row* row = find_row(key);
  if (!row) throw ConfigError(fmt::format("{}: no such key; see `trainyard schema`", key));
  if (row->choices.empty())
    throw ConfigError(fmt::format("{}: takes {}, not one of a list of names", key, row->type));
  std::size_t width = 0;
  for (const ChoiceText& choice : row->choices) width = std::max(width, choice.name.size());
  std::string out;
  for (const ChoiceText& choice : row->choices)
    out += fmt::format("  {:{}}  {}\n", choice.name, width, choice.doc);
  return out;
}

}  // namespace trainyard
