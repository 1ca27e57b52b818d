#pragma once
#include <limits>
#include <string>
#include <vector>

#include "simulator/timing.h"
#include "tools/trainyard/csv_read.h"
#include "tools/trainyard/output.h"

namespace trainyard {

inline constexpr const char* kTornFamily = "torn records";
inline constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

// A published or measured value beside its prediction.
struct ValidatedRow {
  std::string id;
  std::vector<std::string> families;  // groups it is summarised in; the first is the row's own
  std::string quantity;               // what is compared: time_us, iteration_time_s, tokens_per_s
  double published = kUnknown, predicted = kUnknown;
  double low = kUnknown, high = kUnknown;  // 80 % interval
  std::string assumed;                     // what the table did not tell
  std::string skipped;                     // why it was not predicted; empty: it was
  std::vector<std::pair<std::string, double>> breakdown_s;  // of a predicted run, by cause

  double error() const { return predicted / published - 1; }
};

// Errors of the rows of one family; `rows` counts those predicted.
struct FamilySummary {
  std::string name;
  std::size_t rows = 0, skipped = 0;
  double median_abs_error = kUnknown, mean_abs_error = kUnknown, max_abs_error = kUnknown;
  double p90_abs_error = kUnknown;
  double mean_error = kUnknown;     // signed: does the family run fast or slow?
  double median_factor = kUnknown;  // exp(median |log(predicted / published)|)
  double coverage = kUnknown;       // part of the rows whose interval holds what was published
};

// One summary a family in the order of first appearance, and one of all rows under "all".
std::vector<FamilySummary> summarise(const std::vector<ValidatedRow>& rows);

// "A100" of "A100-SXM4-80GB" or "A100 (400W)".
std::string gpu_generation(const std::string& gpu);

// What a row of a table of collectives asks for; nothing with a reason where it cannot be asked
// here.
struct CollectiveCall {
  Op op{};
  GroupShape shape;
  Bytes bytes;
  std::string skip;
};
CollectiveCall collective_call(const CsvRow& row);
double collective_us(const Cluster& profile, const Network& network, const CollectiveCall& call);

struct ValidationFiles {
  std::string table, assumptions;
};
std::vector<ValidatedRow> validate_kernels(const ValidationFiles& files);
std::vector<ValidatedRow> validate_collectives(const ValidationFiles& files);
// On `threads` threads, 0: all cores; the same result with any number. Without `source_rules`, as
// if nobody had written rules for any row's source.
std::vector<ValidatedRow> validate_runs(const ValidationFiles& files, int threads,
                                        bool source_rules);

Json validation_json(const std::vector<ValidatedRow>& rows);
// A page that needs nothing else: scatter plots, families with the errors of their rows, all rows.
std::string validation_html(const std::vector<ValidatedRow>& rows);
// With `each`, a line a row before the families.
std::string validation_text(const std::vector<ValidatedRow>& rows, bool each);

}  // namespace trainyard
