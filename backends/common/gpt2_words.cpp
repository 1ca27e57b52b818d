#include "backends/common/gpt2_words.h"

#include <utf8proc.h>

#include <cstdint>

namespace trainyard {
namespace {

enum class Class : std::uint8_t { letter, number, space, symbol, end };

struct Symbol {
  Class kind;
  std::size_t bytes;
};

// The Unicode property White_Space, of which category Z lacks the controls.
bool is_space(utf8proc_int32_t c, utf8proc_category_t category) {
  return (c >= 0x09 && c <= 0x0d) || c == 0x85 || category == UTF8PROC_CATEGORY_ZS ||
         category == UTF8PROC_CATEGORY_ZL || category == UTF8PROC_CATEGORY_ZP;
}

Class class_of(utf8proc_int32_t c) {
  const utf8proc_category_t category = utf8proc_category(c);
  if (is_space(c, category)) return Class::space;
  if (category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_LO) return Class::letter;
  if (category >= UTF8PROC_CATEGORY_ND && category <= UTF8PROC_CATEGORY_NO) return Class::number;
  return Class::symbol;
}

Symbol symbol_at(std::string_view text, std::size_t at) {
  if (at >= text.size()) return {Class::end, 0};
  utf8proc_int32_t c = -1;
  const auto bytes = utf8proc_iterate(reinterpret_cast<const utf8proc_uint8_t*>(text.data()) + at,
                                      static_cast<utf8proc_ssize_t>(text.size() - at), &c);
  if (bytes <= 0) return {Class::symbol, 1};
  return {class_of(c), static_cast<std::size_t>(bytes)};
}

// Where the run of `kind` that starts at `at` ends.
std::size_t run_end(std::string_view text, std::size_t at, Class kind) {
  for (Symbol s = symbol_at(text, at); s.kind == kind; s = symbol_at(text, at)) at += s.bytes;
  return at;
}

// \s+(?!\S)|\s+ : a run gives its last space to what follows, unless it has but one.
std::size_t spaces(std::string_view text) {
  std::size_t end = 0, last = 0;
  Symbol s = symbol_at(text, 0);
  for (; s.kind == Class::space; s = symbol_at(text, end)) {
    last = end;
    end += s.bytes;
  }
  return s.kind == Class::end || last == 0 ? end : last;
}

}  // namespace

std::size_t gpt2_word(std::string_view text) {
  for (const std::string_view contraction : {"'s", "'t", "'re", "'ve", "'m", "'ll", "'d"})
    if (text.starts_with(contraction)) return contraction.size();
  const std::size_t first = text.front() == ' ' ? 1 : 0;
  const Symbol s = symbol_at(text, first);
  if (s.kind != Class::space && s.kind != Class::end) return run_end(text, first, s.kind);
  return spaces(text);
}

}  // namespace trainyard
