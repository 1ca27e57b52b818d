#include "tools/trainyard/csv_read.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <fstream>

#include "core/config/nearest.h"
#include "core/config/value.h"
#include "core/error.h"

namespace trainyard {
namespace {

constexpr std::uintmax_t kLargestTable = 256 << 20;  // bytes

std::string read_file(const std::string& path) {
  std::error_code error;
  if (std::filesystem::is_directory(path, error))
    throw ConfigError(path + ": is a directory; a table is a CSV file");
  if (!std::filesystem::exists(path, error)) throw ConfigError(path + ": no such file");
  std::ifstream file(path, std::ios::binary);
  if (!file) throw ConfigError(path + ": cannot be read");
  std::string text;  // a pipe has no size
  for (std::vector<char> part(1 << 16); file;
       text.append(part.data(), static_cast<std::size_t>(file.gcount()))) {
    if (text.size() > kLargestTable)
      throw ConfigError(path + ": larger than the 256 MiB a table may have");
    file.read(part.data(), static_cast<std::streamsize>(part.size()));
  }
  if (file.bad()) throw ConfigError(path + ": cannot be read");
  return text;
}

bool blank(const std::string& cell) { return cell.find_first_not_of(" \t") == std::string::npos; }

struct Record {
  std::size_t line = 0;
  std::vector<std::string> cells;
};

// Cuts text into records; `line` counts the file's lines, which quoted cells may span.
class Splitter {
 public:
  explicit Splitter(std::string_view text) : text_(text) {
    if (text_.starts_with("\xEF\xBB\xBF")) at_ = 3;  // byte order mark
  }
  bool at_end() const { return at_ >= text_.size(); }
  bool quote_open() const { return quote_open_; }

  Record next() {
    Record out{.line = line_, .cells = {""}};
    for (; at_ < text_.size(); ++at_) {
      const char c = text_[at_];
      if (c == '"') {
        quoted(out.cells.back());
      } else if (c == ',') {
        out.cells.emplace_back();
      } else if (c == '\n') {
        ++at_, ++line_;
        break;
      } else if (c != '\r') {
        out.cells.back() += c;
      }
    }
    return out;
  }

 private:
  // From an opening quote to its end; leaves `at_` on the closing one.
  void quoted(std::string& cell) {
    for (++at_; at_ < text_.size(); ++at_) {
      if (text_[at_] == '\n') ++line_;
      if (text_[at_] != '"') {
        cell += text_[at_];
      } else if (text_.substr(at_ + 1).starts_with('"')) {
        cell += text_[at_++];
      } else {
        return;
      }
    }
    quote_open_ = true;
  }

  std::string_view text_;
  std::size_t at_ = 0, line_ = 1;
  bool quote_open_ = false;
};

}  // namespace

CsvTable::CsvTable(const std::string& path, const std::vector<std::string_view>& needed,
                   const std::vector<CsvDialect>& dialects)
    : path_(path) {
  const std::string text = read_file(path);
  if (text.empty()) throw ConfigError(path + ": is empty; its first line names its columns");
  Splitter splitter(text);
  columns_ = written_ = splitter.next().cells;
  units_.assign(columns_.size(), 1);
  std::vector<std::string> lacked;
  const auto spoken = std::ranges::find_if(dialects, [&](const CsvDialect& dialect) {
    return std::ranges::all_of(dialect.columns, [&](const auto& c) { return has(c.theirs); });
  });
  if (spoken != dialects.end()) lacked = translate(*spoken, needed);
  check_columns(needed);
  while (!splitter.at_end()) {
    Record record = splitter.next();
    if (std::ranges::all_of(record.cells, blank)) continue;
    record.cells.insert(record.cells.end(), lacked.begin(), lacked.end());
    rows_.emplace_back(*this, record.line, std::move(record.cells));
  }
  if (splitter.quote_open()) violations_.push_back(path + ": the last quote does not end");
  if (rows_.empty()) violations_.push_back(path + ": has no rows");
  refuse_violations();
}

void CsvTable::check_columns(const std::vector<std::string_view>& needed) {
  if (std::ranges::none_of(needed, [&](std::string_view name) { return has(name); })) {
    std::string names, line;
    for (const std::string_view name : needed)
      names += (names.empty() ? "" : ", ") + std::string(name);
    for (const std::string& name : written_) line += (line.empty() ? "" : ",") + name;
    throw ConfigError(
        fmt::format("{}:1: '{}' names no column that is needed; a table's first line names its "
                    "columns, with commas between: {}",
                    path_, printable(line), names));
  }
  for (const std::string_view name : needed)
    if (!has(name))
      violations_.push_back(
          fmt::format("{}:1: lacks the column '{}'{}", path_, name, did_you_mean(name, written_)));
  for (std::size_t i = 0; i < columns_.size(); ++i)
    if (!columns_[i].empty() && find(columns_[i]) < i)
      violations_.push_back(
          fmt::format("{}:1: has the column '{}' twice", path_, printable(written_[i])));
}

std::vector<std::string> CsvTable::translate(const CsvDialect& dialect,
                                             const std::vector<std::string_view>& needed) {
  for (const auto& [theirs, ours, unit] : dialect.columns) {
    const std::size_t at = find(theirs);
    columns_[at] = ours;
    units_[at] = unit;
  }
  std::vector<std::string> lacked;
  for (const std::string_view name : needed) {
    if (has(name)) continue;
    const auto same = std::ranges::find(dialect.same, name, &CsvDialect::Same::ours);
    columns_.emplace_back(name);
    written_.emplace_back(name);
    units_.push_back(1);
    lacked.emplace_back(same == dialect.same.end() ? "" : same->text);
  }
  return lacked;
}

std::size_t CsvTable::find(std::string_view column) const {
  return static_cast<std::size_t>(std::ranges::find(columns_, column) - columns_.begin());
}

void CsvTable::refuse_violations() const {
  if (!violations_.empty()) throw ConfigError(violations_);
}

std::string CsvRow::defect() const {
  if (cells_.size() == table_->columns_.size()) return "";
  return fmt::format("torn record: {} cells for {} columns", cells_.size(),
                     table_->columns_.size());
}

CsvRow CsvRow::without(std::span<const std::string_view> columns) const {
  CsvRow out = *this;
  for (const std::string_view column : columns)
    if (const std::size_t at = table_->find(column); at < out.cells_.size()) out.cells_[at].clear();
  return out;
}

std::string CsvRow::place() const { return fmt::format("{}:{}", table_->path_, line_); }

void CsvRow::violation(std::string_view column, std::string_view what) const {
  if (!defect().empty()) return;  // its cells stand under other columns' names
  table_->violations_.push_back(fmt::format("{}: {} = '{}': {}", place(),
                                            table_->written_[table_->find(column)],
                                            printable(text(column)), what));
}

const std::string& CsvRow::text(std::string_view column) const {
  static const std::string kNone;
  const std::size_t at = table_->find(column);
  return at < cells_.size() ? cells_[at] : kNone;
}

std::optional<double> CsvRow::number(std::string_view column) const {
  const std::string& cell = text(column);
  if (cell.empty()) return {};
  double out = 0;
  const auto [end, error] = std::from_chars(cell.data(), cell.data() + cell.size(), out);
  if (error == std::errc() && end == cell.data() + cell.size() && std::isfinite(out))
    return out * table_->units_[table_->find(column)];
  violation(column, "is no number");
  return {};
}

std::optional<double> CsvRow::positive(std::string_view column) const {
  const std::optional<double> out = number(column);
  if (!out || *out > 0) return out;
  violation(column, "must be more than 0");
  return {};
}

std::optional<std::int64_t> CsvRow::integer(std::string_view column) const {
  const std::optional<double> out = number(column);
  if (!out) return {};
  if (*out >= 0 && *out < 1e15 && *out == std::floor(*out)) return static_cast<std::int64_t>(*out);
  violation(column, "is no whole number from 0 on");
  return {};
}

}  // namespace trainyard
