#include "core/config/toml_reader.h"

namespace trainyard {
namespace {
struct ParserGaveUp {};
constexpr void parser_holds(bool condition) {
  if (!condition) throw ParserGaveUp();
}
}  // namespace
}  // namespace trainyard

// toml++ 3.3 asserts what some broken files violate ("[#name]"), and assumes it when assertions
// are off. Here a violated assertion is an exception in every build.
#undef NDEBUG
#define TOML_ASSERT(condition) ::trainyard::parser_holds(static_cast<bool>(condition))
#define TOML_EXCEPTIONS 0  // errors come back as values
#include <toml++/toml.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstring>
#include <fstream>

#include "core/error.h"

namespace trainyard {
namespace {

constexpr int kDeepestKey = 32;  // segments of a dotted key

Where place(const std::string& file, const toml::source_region& region) {
  return {file, region.begin.line, region.begin.column};
}

Value convert(const toml::node& node, const std::string& file);

Table convert_table(const toml::table& table, const std::string& file) {
  Table out;
  for (auto&& [key, node] : table) {
    Value& value = out.emplace(std::string(key.str()), convert(node, file)).first->second;
    value.key = place(file, key.source());
  }
  return out;
}

Value convert(const toml::node& node, const std::string& file) {
  Value out{Date{}, place(file, node.source()), {}};
  if (auto* flag = node.as_boolean()) out.data = flag->get();
  if (auto* integer = node.as_integer()) out.data = integer->get();
  if (auto* number = node.as_floating_point()) out.data = number->get();
  if (auto* string = node.as_string()) out.data = string->get();
  if (auto* table = node.as_table()) out.data = convert_table(*table, file);
  if (auto* array = node.as_array()) {
    List list;
    for (auto&& item : *array) list.push_back(convert(item, file));
    out.data = std::move(list);
  }
  return out;
}

// Tables nest as deep as a dotted key is long, and every walk over them recurses. Throws for a
// key no scenario can mean, before the parser builds it. Dots are counted over a run of name
// characters, so numbers and ordinary strings never come near the limit.
void refuse_deep_keys(std::string_view text, const std::string& file) {
  std::uint32_t line = 1, dots = 0;
  bool comment = false;
  for (char c : text) {
    if (c == '\n') ++line, dots = 0, comment = false;
    if (c == '#') comment = true;
    if (comment) continue;
    const bool name = std::isalnum(static_cast<unsigned char>(c)) || std::strchr("_-\"' \t", c);
    if (c == '.' && ++dots > kDeepestKey)
      throw ConfigError(
          fmt::format("{}:{}:1: a dotted key of more than {} names; the longest keys "
                      "known have 5",
                      file, line, kDeepestKey));
    if (c != '.' && !name) dots = 0;
  }
}

bool parser_gives_up(std::string_view text) {
  try {
    static_cast<void>(toml::parse(text));
  } catch (const ParserGaveUp&) {
    return true;
  }
  return false;
}

// The line at which the parser gives up: the fewest first lines that make it do so.
std::size_t line_of_surrender(std::string_view text) {
  std::vector<std::size_t> ends;  // of the lines
  for (std::size_t at = text.find('\n'); at < text.size(); at = text.find('\n', at + 1))
    ends.push_back(at + 1);
  const auto first = std::partition_point(ends.begin(), ends.end(), [&](std::size_t end) {
    return !parser_gives_up(text.substr(0, end));
  });
  return static_cast<std::size_t>(first - ends.begin()) + 1;
}

toml::parse_result parse(std::string_view text, const std::string& file) {
  try {
    return toml::parse(text, file);
  } catch (const ParserGaveUp&) {
    throw ConfigError(fmt::format("{}:{}:1: syntax error: no key where one must stand", file,
                                  line_of_surrender(text)));
  }
}

std::string read_text(const std::filesystem::path& path) {
  const std::string name = path.string();
  std::error_code error;
  const auto status = std::filesystem::status(path, error);
  if (!std::filesystem::exists(status))
    throw ConfigError(fmt::format("{}: no such file", printable(name, 300)));
  if (std::filesystem::is_directory(status))
    throw ConfigError(fmt::format("{}: is a directory; a scenario is a TOML file", name));
  std::ifstream in(path, std::ios::binary);
  std::string text;
  std::array<char, 1 << 14> piece{};
  while (in && text.size() <= kLargestScenario) {
    in.read(piece.data(), piece.size());
    text.append(piece.data(), static_cast<std::size_t>(in.gcount()));
  }
  if (in.bad() || (in.fail() && !in.eof()))
    throw ConfigError(fmt::format("{}: cannot be read; check its permissions", name));
  if (text.size() > kLargestScenario)
    throw ConfigError(
        fmt::format("{}: is larger than 4 MiB; a scenario is a small TOML file", name));
  if (text.find('\0') != std::string::npos)
    throw ConfigError(fmt::format("{}: is not a text file (it holds zero bytes)", name));
  return text;
}

}  // namespace

Table read_toml(const std::filesystem::path& path) {
  const std::string file = path.string();
  const std::string text = read_text(path);
  refuse_deep_keys(text, file);
  toml::parse_result result = parse(text, file);
  if (!result)
    throw ConfigError(fmt::format("{}: syntax error: {}",
                                  place(file, result.error().source()).text(),
                                  printable(result.error().description(), 300)));
  if (result.table().empty())
    throw ConfigError(
        fmt::format("{}: is empty; a scenario sets keys, see `trainyard schema`", file));
  return convert_table(result.table(), file);
}

std::optional<Value> parse_toml_value(std::string_view text, const Where& where) {
  if (text.find('\n') != std::string_view::npos) return std::nullopt;
  const std::string line = "value = " + std::string(text);
  if (parser_gives_up(line)) return std::nullopt;
  toml::parse_result result = toml::parse(line);
  if (!result || result.table().size() != 1) return std::nullopt;
  Value value = convert(*result.table().get("value"), where.file);
  value.where = value.key = where;
  return value;
}

}  // namespace trainyard
