#pragma once
// How one value becomes a member of each type, and how the member is shown again.
#include <fmt/format.h>

#include <array>

#include "core/config/choices.h"
#include "core/config/schema.h"

namespace trainyard {

void read_member(const Row& row, const Value& value, bool& out);
void read_member(const Row& row, const Value& value, std::int32_t& out);
void read_member(const Row& row, const Value& value, std::int64_t& out);
void read_member(const Row& row, const Value& value, std::uint64_t& out);
void read_member(const Row& row, const Value& value, double& out);
void read_member(const Row& row, const Value& value, std::string& out);
void read_member(const Row& row, const Value& value, Bytes& out);
void read_member(const Row& row, const Value& value, Bandwidth& out);
void read_member(const Row& row, const Value& value, FlopRate& out);
void read_member(const Row& row, const Value& value, Range& out);

std::string show_member(const Row& row, bool value);
std::string show_member(const Row& row, std::int64_t value);
std::string show_member(const Row& row, std::int32_t value);
std::string show_member(const Row& row, std::uint64_t value);
std::string show_member(const Row& row, double value);
std::string show_member(const Row& row, const std::string& value);
std::string show_member(const Row& row, Bytes value);
std::string show_member(const Row& row, Bandwidth value);
std::string show_member(const Row& row, FlopRate value);

// The choices as "a, b, c", and the error for a value that is none of them.
std::string choice_list(const Row& row);
[[noreturn]] void refuse_choice(const Row& row, const Value& value);

const std::string& as_string(const Value& value);  // throws BadValue
const List& as_list(const Value& value);           // throws BadValue

template <class T>
constexpr const char* type_name() {
  if constexpr (std::is_same_v<T, bool>) return "boolean";
  if constexpr (std::is_integral_v<T>) return "integer";
  if constexpr (std::is_enum_v<T>) return "choice";
  if constexpr (std::is_same_v<T, std::string>) return "string";
  if constexpr (std::is_same_v<T, Bytes>) return "size";
  if constexpr (std::is_same_v<T, Range>) return "[low, high]";
  return "number";
}

template <class E>
requires std::is_enum_v<E>
void read_member(const Row& row, const Value& value, E& out) {
  const std::string& name = as_string(value);
  for (const Choice<E>& choice : choices<E>())
    if (choice.name == name) return void(out = choice.value);
  refuse_choice(row, value);
}

template <class E>
requires std::is_enum_v<E> std::string show_member(const Row&, E value) {
  return fmt::format("\"{}\"", choice_name(value));
}

// A list, or one value that stands for a list of one.
template <class T>
void read_member(const Row& row, const Value& value, std::vector<T>& out) {
  out.clear();
  if (auto* list = value.as<List>())
    for (const Value& item : *list) read_member(row, item, out.emplace_back());
  else
    read_member(row, value, out.emplace_back());
}

template <class T, std::size_t n>
void read_member(const Row& row, const Value& value, std::array<T, n>& out) {
  const List& list = as_list(value);
  if (list.size() != n)
    throw BadValue(value, fmt::format("needs exactly {} items, has {}", n, list.size()));
  for (std::size_t i = 0; i < n; ++i) read_member(row, list[i], out[i]);
}

template <class Items>
requires requires(const Items& items) {
  items.begin(), items.size();
} &&(!std::is_same_v<Items, std::string>)std::string
    show_member(const Row& row, const Items& items) {
  std::string out;
  for (const auto& item : items) out += (out.empty() ? "" : ", ") + show_member(row, item);
  return fmt::format("[{}]", out);
}

}  // namespace trainyard
