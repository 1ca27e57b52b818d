#pragma once
#include <string>
#include <vector>

#include "tools/trainyard/output.h"
#include "tools/trainyard/run.h"

namespace trainyard {

// What the process itself took; differs from run to run.
struct ProcessCost {
  double wall_time_s = 0;
  std::int64_t peak_rss_bytes = 0;
};

// The result as documented in this folder's README.md; `cost` null: those two keys are null.
Json sim_json(const SimReport& report, const ProcessCost* cost);

// The result for people: a short table, the waterfall from peak FLOP/s to MFU, memory by stage.
std::string sim_text(const SimReport& report);

// A sentence for each expectation of the scenario that `result` (of sim_json) misses. Throws
// ConfigError for an expectation about a key that is no number of it.
std::vector<std::string> missed_expectations(const Job& job, const Json& result);

}  // namespace trainyard
