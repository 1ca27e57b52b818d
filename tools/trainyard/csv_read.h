#pragma once
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace trainyard {

class CsvTable;

// One record of a CSV file. Accessors take the name of a column; what a cell must be and is not
// goes to the table's violations, and the accessor answers with nothing.
class CsvRow {
 public:
  CsvRow(CsvTable& table, std::size_t line, std::vector<std::string> cells)
      : table_(&table), line_(line), cells_(std::move(cells)) {}

  std::size_t line() const { return line_; }
  // Not empty: the record is torn, it has another number of cells than the table has columns.
  std::string defect() const;
  std::string place() const;                                    // file:line
  const std::string& text(std::string_view column) const;       // empty where the table lacks it
  std::optional<double> number(std::string_view column) const;  // empty cell: nothing
  std::optional<double> positive(std::string_view column) const;
  std::optional<std::int64_t> integer(std::string_view column) const;  // >= 0
  void violation(std::string_view column, std::string_view what) const;

 private:
  CsvTable* table_;
  std::size_t line_;
  std::vector<std::string> cells_;
};

// A CSV file (RFC 4180: quotes, doubled quotes, line ends in quotes) with a line of column names.
class CsvTable {
 public:
  // Throws ConfigError with every violation: unreadable, a needed column missing, quotes that do
  // not end. A torn record is a row with a defect: one line of a published table must not cost the
  // rest.
  CsvTable(const std::string& path, const std::vector<std::string_view>& needed);
  CsvTable(const CsvTable&) = delete;  // rows point here
  CsvTable& operator=(const CsvTable&) = delete;

  const std::vector<CsvRow>& rows() const { return rows_; }
  bool has(std::string_view column) const { return find(column) < columns_.size(); }
  // Throws ConfigError with what the accessors of rows found; to be called after they were used.
  void refuse_violations() const;

 private:
  friend class CsvRow;
  std::size_t find(std::string_view column) const;

  std::string path_;
  std::vector<std::string> columns_;
  std::vector<CsvRow> rows_;
  std::vector<std::string> violations_;
};

}  // namespace trainyard
