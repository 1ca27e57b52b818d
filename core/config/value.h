#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace trainyard {

// Where a piece of input stands: a file with line and column (from 1), or, with line 0, a source
// without lines such as "--set".
struct Where {
  std::string file;
  std::uint32_t line = 0, column = 0;

  std::string text() const;  // file:line:column
  auto operator<=>(const Where&) const = default;
};

struct Value;
using List = std::vector<Value>;
using Table = std::map<std::string, Value>;
struct Date {};  // dates and times of day: TOML has them, no key takes one

// One TOML value with its place. Holds what the parser gave and nothing of the parser.
struct Value {
  std::variant<bool, std::int64_t, double, std::string, List, Table, Date> data;
  Where where;
  Where key;  // of the key that names the value; nowhere for the items of a list

  template <class T>
  const T* as() const {
    return std::get_if<T>(&data);
  }
  std::string_view type() const;  // "an integer", "a list", …
  std::string text() const;       // as one would write it, shortened for messages
};

// Input text made fit for a message: control characters and bad bytes escaped, at most `limit`
// characters.
std::string printable(std::string_view text, std::size_t limit = 60);

}  // namespace trainyard
