#pragma once
#include <cstddef>
#include <set>
#include <string>
#include <vector>

#include "tools/trainyard/calibrate_from.h"
#include "tools/trainyard/csv_read.h"
#include "tools/trainyard/fit.h"

namespace trainyard {

// Rows that are fitted together, and the constants they tell.
struct FitFamily {
  std::string name;
  std::vector<FitConstant> constants;
  FitRows rows;
  std::size_t shapes;
  std::set<std::string> gpus;  // generations the rows are of
};

// The families of a table of kernel times (with a column `kernel`) or of collective times (with
// `op`), of the rows that --where chooses and that can be predicted. Throws ConfigError.
std::vector<FitFamily> fit_families(const CalibrateFrom& options, const CsvTable& table,
                                    const Job& job);

}  // namespace trainyard
