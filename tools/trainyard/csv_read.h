#pragma once
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace trainyard {

class CsvTable;

// Another way to write a table: what its columns are called, in which units, and what holds for all
// of its rows and has no column.
struct CsvDialect {
  struct Column {
    std::string_view theirs, ours;
    double unit = 1;  // of ours: what one of theirs is
  };
  struct Same {
    std::string_view ours, text;
  };
  std::vector<Column> columns;  // a table with all of them is written this way
  std::vector<Same> same;
};

// One record of a CSV file. Accessors take the name of a column; what a cell must be and is not
// goes to the table's violations, and the accessor answers with nothing.
class CsvRow {
 public:
  CsvRow(CsvTable& table, std::size_t line, std::vector<std::string> cells)
      : table_(&table), line_(line), cells_(std::move(cells)) {}

  std::size_t line() const { return line_; }
  // The record with these columns empty.
  CsvRow without(std::span<const std::string_view> columns) const;
  // Not empty: the record is torn, it has another number of cells than the table has columns.
  std::string defect() const;
  std::string place() const;                                    // file:line
  const std::string& text(std::string_view column) const;       // empty where the table lacks it
  std::optional<double> number(std::string_view column) const;  // empty cell: nothing
  std::optional<double> positive(std::string_view column) const;
  std::optional<std::int64_t> integer(std::string_view column) const;  // >= 0
  // Of a torn record's cells nothing is said but that it is torn.
  void violation(std::string_view column, std::string_view what) const;

 private:
  CsvTable* table_;
  std::size_t line_;
  std::vector<std::string> cells_;
};

// A CSV file (RFC 4180: quotes, doubled quotes, line ends in quotes) with a line of column names.
class CsvTable {
 public:
  // Throws ConfigError with every violation: unreadable, a needed column missing or a column there
  // twice, quotes that do not end. A torn record is a row with a defect: one line of a published
  // table must not cost the rest. Records of blanks alone are none.
  // A table in one of the `dialects` is read as if it had the needed columns.
  CsvTable(const std::string& path, const std::vector<std::string_view>& needed,
           const std::vector<CsvDialect>& dialects = {});
  CsvTable(const CsvTable&) = delete;  // rows point here
  CsvTable& operator=(const CsvTable&) = delete;

  const std::vector<CsvRow>& rows() const { return rows_; }
  bool has(std::string_view column) const { return find(column) < columns_.size(); }
  // Throws ConfigError with what the accessors of rows found; to be called after they were used.
  void refuse_violations() const;

 private:
  friend class CsvRow;
  std::size_t find(std::string_view column) const;
  void check_columns(const std::vector<std::string_view>& needed);
  // Renames the columns; answers with the cells that every record lacks.
  std::vector<std::string> translate(const CsvDialect& dialect,
                                     const std::vector<std::string_view>& needed);

  std::string path_;
  std::vector<std::string> columns_, written_;  // their names here and in the file
  std::vector<double> units_;                   // by column: what a number in it is multiplied with
  std::vector<CsvRow> rows_;
  std::vector<std::string> violations_;
};

}  // namespace trainyard
