#pragma once
// Numbers and tables as people read them.
#include <cstdint>
#include <string>
#include <vector>

#include "core/types.h"

namespace trainyard {

std::string grouped(std::int64_t number);  // 12,288
std::string gib(Bytes bytes);              // "52.10" (GiB)

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
