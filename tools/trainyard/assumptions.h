#pragma once
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "core/config/job.h"
#include "core/config/value.h"
#include "core/error.h"
#include "tools/trainyard/csv_read.h"

namespace trainyard {

// Columns that tell who published a row and under which name.
inline constexpr std::string_view kSourceColumns[] = {"source", "table", "id", "notes"};

// What holds for a row of a table of measurements that its columns do not tell.
struct Assumed {
  std::vector<std::string> sets;      // "a.b=c" as for --set, in the order of the rules
  std::vector<std::string> defaults;  // likewise, but what the row's columns tell goes before
  std::vector<std::string> why;
  std::string skip;    // not empty: the row is not predicted, for this reason
  std::string family;  // name of the row's family; empty: the table's own
  bool gpu = false;    // a rule that is for the row's GPU says which one it is here
};

class RuleReader;

// Rules of scenarios/published/assumptions.toml for one kind of table. A rule names the rows it is
// for by what their columns contain, never a single row, and gives scenario keys with a reason. A
// habit holds for rows for which no rule that names a source or a system sets anything.
class Assumptions {
 public:
  // `section`: runs, kernels or collectives. Throws ConfigError with every violation: a rule that
  // names a column that `table` lacks, sets what no scenario could, or does nothing is one.
  Assumptions(const std::string& path, const std::string& section, const CsvTable& table);

  // All rules that match, in the order of the file; later keys win.
  Assumed of(const CsvRow& row) const;
  // As if nobody had written rules for the row's source: nothing is set by rules that go by its
  // source, table, id or notes. They name its family still, and what is refused.
  Assumed without_source_rules(const CsvRow& row) const;

 private:
  // On a column, or on "name": what the row's id, table and system say.
  struct Condition {
    std::string column;
    // "text" is contained, "=text" is the whole cell, "2..8" holds the number in the cell; "!text"
    // is not contained.
    std::vector<std::string> any, none;
    bool holds(const CsvRow& row) const;
  };
  struct Rule {
    std::vector<Condition> conditions;
    bool habit = false, names_run = false;  // by source, table, id, notes or system
    Assumed assumed;
    bool holds(const CsvRow& row) const;
  };
  static Rule rule(const Value& value, RuleReader& read);
  std::vector<Rule> rules_;
};

// Why such rows are not predicted, of what a job made from `sets` was refused for.
std::string why_refused(const ConfigError& error);

// The cluster and software that `sets` describe around a small model. Throws ConfigError.
Job bench_job(const std::vector<std::string>& sets);

// Makes bench jobs once for each list of settings.
class BenchJobs {
 public:
  const Job& of(const std::vector<std::string>& sets);

 private:
  std::map<std::vector<std::string>, Job> jobs_;
};

}  // namespace trainyard
