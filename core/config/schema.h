#pragma once
#include <functional>
#include <limits>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "core/config/job.h"
#include "core/config/value.h"

namespace trainyard {

// Thrown while a value is read: what is wrong with it and, for lists, the place of the bad item.
struct BadValue : std::runtime_error {
  BadValue(const Value& value, const std::string& what)
      : std::runtime_error(what), where(value.where), text(value.text()) {}
  Where where;
  std::string text;
};

struct ChoiceText {
  std::string name, doc;
};

// One key of a scenario file: the only place that says how it is spelled, typed, limited,
// explained and where it goes.
struct Row {
  std::string key;   // dotted; a segment "*" is a name the file chooses
  std::string doc;   // one line
  std::string type;  // "integer", "number", "size", …
  double low = -std::numeric_limits<double>::infinity();  // limits in the key's own unit
  double high = std::numeric_limits<double>::infinity();
  double scale = 1;                 // one unit of the key in the member's unit, from its suffix
  std::vector<ChoiceText> choices;  // empty: free
  bool required = false;
  bool derived = false;  // when absent, computed from other keys; `doc` says how

  // Stores `value`, throws BadValue. `name` is what stands in place of "*".
  std::function<void(const Row&, const Value& value, const std::string& name, Job&)> assign;
  // The member as one would write it; for a default-constructed job the default.
  std::function<std::string(const Row&, const Job&)> show;

  Row&& within(double least, double most) && { return low = least, high = most, std::move(*this); }
  Row&& at_least(double least) && { return low = least, std::move(*this); }
  Row&& must() && { return required = true, std::move(*this); }
  Row&& computed() && { return derived = true, std::move(*this); }
};

// The whole table, section by section in the order of the documentation.
std::span<const Row> schema();

// The row for a dotted key, with `name` set to what stands in place of "*"; null if unknown.
const Row* find_row(std::string_view key, std::string* name = nullptr);

// Whether some key lies below `prefix`, as in "cluster.gpu".
bool is_section(std::string_view prefix);

// Keys directly or deeper below `section` ("" = all), as in the table.
std::vector<std::string> keys_of(std::string_view section);

enum class TextFormat : std::uint8_t { plain, markdown };

// The reference of all keys whose name starts with `section` ("" = all): type, unit, default,
// limits and choices, and what each does.
std::string describe_schema(TextFormat format = TextFormat::plain, std::string_view section = "");

// A line about each choice of an enumerated key, as printed for the value "help". Throws
// ConfigError for a key that is unknown or has no choices.
std::string describe_choices(std::string_view key);

}  // namespace trainyard
