#pragma once
#include <string>

#include "tools/trainyard/output.h"
#include "tools/trainyard/run.h"

namespace trainyard {

// The five changes that would gain most: the step is simulated again with one class of cost
// removed at a time. The pipeline bubble is no class of cost; its gain is the time attributed.
std::string explain(const SimReport& base, const SimulationOptions& options);

// Reads the result of an earlier `sim --json`; throws ConfigError when it is none.
Json read_result(const std::string& path);

// The difference of two results by cause; the rows sum to the difference of the iteration times.
std::string difference(const Json& mine, const Json& other);

}  // namespace trainyard
