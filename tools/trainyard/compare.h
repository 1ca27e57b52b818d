#pragma once
#include <string>

#include "core/report/step_compare.h"
#include "tools/trainyard/output.h"

namespace trainyard {

// The comparison as documented in this folder's README.md.
Json compare_json(const StepComparison& comparison, const std::string& program_hash);

// The comparison for people: step times, where the difference is by class and by rank, and the
// instructions that differ most; at most `top` ranks.
std::string compare_text(const StepComparison& comparison, std::size_t top);

}  // namespace trainyard
