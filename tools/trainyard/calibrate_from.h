#pragma once
#include <string>
#include <vector>

namespace trainyard {

// What `calibrate --from` is told.
struct CalibrateFrom {
  std::string table;               // CSV of kernel or collective times
  std::string cluster;             // preset the fit starts from
  std::vector<std::string> sets;   // "key=value": what is known better, and where the fit starts
  std::vector<std::string> where;  // "column=text": only rows whose cell contains the text
  std::vector<std::string> keep;   // constants whose key contains one of these stay where they are
  std::vector<std::string> together;  // all whose key contains one keep their ratios
  std::vector<std::string> write;     // only those are written; empty: all
  std::string out, json;              // files; empty: standard output, none
  std::size_t folds = 5;              // of cross-validation
  bool constants_only = false;        // no preset: the file is the base of another profile
};

// Fits the constants of a GPU's kernels (a table with a column `kernel`) or of NCCL (one with `op`)
// and writes them as a scenario file with where they come from. Throws ConfigError.
int calibrate_from(const CalibrateFrom& options);

}  // namespace trainyard
