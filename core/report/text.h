#pragma once
// Numbers and tables as people read them.
#include <cstdint>
#include <string>
#include <vector>

#include "core/types.h"

namespace trainyard {

std::string grouped(std::int64_t number);  // 12,288
std::string gib(Bytes bytes);              // "52.10" (GiB)

// Times of one report in one unit: seconds, or milliseconds when the whole is less than a second.
class TimeUnit {
 public:
  explicit TimeUnit(double whole_s) : milli_(whole_s < 1) {}
  const char* name() const { return milli_ ? "ms" : "s"; }
  std::string text(double seconds) const;         // "6.342"
  std::string signed_text(double seconds) const;  // "+6.342"

 private:
  bool milli_;
};

std::string percent(double part);  // of 0.123: "12.3"

// Rows of cells; the first column is left-aligned, the others right-aligned, two blanks between.
// A row with one cell is a heading and does not widen the columns.
class TextTable {
 public:
  void row(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }
  std::string text() const;

 private:
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace trainyard
