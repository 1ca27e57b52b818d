#include "core/config/schema_read.h"

#include <cmath>

#include "core/config/nearest.h"
#include "core/config/units.h"

namespace trainyard {
namespace {

[[noreturn]] void wrong_type(const Value& value, std::string_view expected) {
  throw BadValue(value, fmt::format("is {}, but this key takes {}", value.type(), expected));
}

std::string limits(const Row& row) {
  if (std::isinf(row.high)) return fmt::format("at least {}", row.low);
  return fmt::format("from {} to {}", row.low, row.high);
}

void check_limits(const Row& row, const Value& value, double number) {
  if (number >= row.low && number <= row.high) return;
  throw BadValue(value, fmt::format("is out of range; legal: {}; nearest: {}", limits(row),
                                    number < row.low ? row.low : row.high));
}

std::int64_t read_integer(const Row& row, const Value& value, double least, double most) {
  if (auto* number = value.as<double>();
      number && std::abs(*number) < 9e15 && *number == std::trunc(*number))
    throw BadValue(value, fmt::format("is a number with a fraction or exponent, but this key takes "
                                      "an integer; write {}",
                                      static_cast<std::int64_t>(*number)));
  const auto* integer = value.as<std::int64_t>();
  if (!integer) wrong_type(value, "an integer");
  Row bounds = row;
  bounds.low = std::max(row.low, least);
  bounds.high = std::min(row.high, most);
  check_limits(bounds, value, static_cast<double>(*integer));
  return *integer;
}

// Keys that count microseconds or milliseconds also take a time with unit.
bool time_key(const Row& row) { return row.key.ends_with("_us") || row.key.ends_with("_ms"); }

std::optional<double> time_in_unit(const Row& row, const std::string& text) {
  const auto time = parse_time(text);
  if (!time || !time_key(row)) return std::nullopt;
  return to_microseconds(*time) / (row.key.ends_with("_ms") ? 1e3 : 1);
}

double read_number(const Row& row, const Value& value) {
  double number = 0;
  if (auto* integer = value.as<std::int64_t>()) {
    number = static_cast<double>(*integer);
  } else if (auto* floating = value.as<double>()) {
    number = *floating;
  } else if (auto* text = value.as<std::string>()) {
    const auto time = time_in_unit(row, *text);
    if (!time)
      wrong_type(value, time_key(row) ? "a number or a time such as \"3.5us\"" : "a number");
    number = *time;
  } else {
    wrong_type(value, "a number");
  }
  if (!std::isfinite(number)) throw BadValue(value, "is not a finite number");
  check_limits(row, value, number);
  return number;
}

}  // namespace

std::string choice_list(const Row& row) {
  std::string out;
  for (const ChoiceText& choice : row.choices) out += (out.empty() ? "" : ", ") + choice.name;
  return out;
}

void refuse_choice(const Row& row, const Value& value) {
  const std::string& word = as_string(value);
  if (word == "help") throw BadValue(value, "takes one of\n" + describe_choices(row.key));
  std::vector<std::string> names;
  for (const ChoiceText& choice : row.choices) names.push_back(choice.name);
  throw BadValue(
      value, fmt::format("is unknown; valid: {}{}", choice_list(row), did_you_mean(word, names)));
}

const std::string& as_string(const Value& value) {
  auto* text = value.as<std::string>();
  if (!text) wrong_type(value, "a string");
  return *text;
}

const List& as_list(const Value& value) {
  auto* list = value.as<List>();
  if (!list) wrong_type(value, "a list");
  return *list;
}

void read_member(const Row&, const Value& value, bool& out) {
  auto* flag = value.as<bool>();
  if (!flag) wrong_type(value, "true or false");
  out = *flag;
}

void read_member(const Row& row, const Value& value, std::int32_t& out) {
  out = static_cast<std::int32_t>(read_integer(row, value, INT32_MIN, INT32_MAX));
}

void read_member(const Row& row, const Value& value, std::int64_t& out) {
  out = read_integer(row, value, -9e18, 9e18);
}

void read_member(const Row& row, const Value& value, std::uint64_t& out) {
  out = static_cast<std::uint64_t>(read_integer(row, value, 0, 9e18));
}

void read_member(const Row& row, const Value& value, double& out) { out = read_number(row, value); }

void read_member(const Row& row, const Value& value, std::string& out) {
  const std::string& text = as_string(value);
  if (!row.choices.empty()) {
    bool known = false;
    for (const ChoiceText& choice : row.choices) known |= choice.name == text;
    if (!known) refuse_choice(row, value);
  }
  if (text.size() > 200) throw BadValue(value, "is longer than 200 characters");
  out = text;
}

void read_member(const Row& row, const Value& value, Bytes& out) {
  if (auto* text = value.as<std::string>()) {
    const auto size = parse_size(*text);
    if (!size)
      throw BadValue(value, fmt::format("is not a size; write bytes as an integer or a string such "
                                        "as \"80GiB\" (units {})",
                                        kSizeUnits));
    check_limits(row, value, static_cast<double>(size->value));
    out = *size;
  } else if (value.as<std::int64_t>()) {
    out.value = read_integer(row, value, 0, 9e18);
  } else {
    wrong_type(value, "a size such as \"80GiB\"");
  }
}

void read_member(const Row& row, const Value& value, Bandwidth& out) {
  out.value = read_number(row, value) * row.scale;
}

void read_member(const Row& row, const Value& value, FlopRate& out) {
  out.value = read_number(row, value) * row.scale;
}

void read_member(const Row& row, const Value& value, Range& out) {
  std::array<double, 2> ends{};
  read_member(row, value, ends);
  if (ends[0] > ends[1])
    throw BadValue(value,
                   fmt::format("has its low end {} above its high end {}", ends[0], ends[1]));
  out = {ends[0], ends[1]};
}

std::string show_member(const Row&, bool value) { return value ? "true" : "false"; }
std::string show_member(const Row&, std::int64_t value) { return fmt::format("{}", value); }
std::string show_member(const Row&, std::int32_t value) { return fmt::format("{}", value); }
std::string show_member(const Row&, std::uint64_t value) { return fmt::format("{}", value); }
std::string show_member(const Row&, double value) { return fmt::format("{}", value); }
std::string show_member(const Row&, const std::string& value) {
  return fmt::format("\"{}\"", value);
}
std::string show_member(const Row&, Bytes value) { return fmt::format("{}", value.value); }
std::string show_member(const Row& row, Bandwidth value) {
  return fmt::format("{}", value.value / row.scale);
}
std::string show_member(const Row& row, FlopRate value) {
  return fmt::format("{}", value.value / row.scale);
}

}  // namespace trainyard
