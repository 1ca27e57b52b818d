#pragma once
#include <vector>

#include "core/plan/validate_program.h"
#include "core/program/happens_before.h"

namespace trainyard {

// The part of validate() that looks at all stages together: transfers pair up, collectives between
// stages match, and with zero-buffer sends everything ends. `order` is by stage. One rank stands
// for all ranks of a stage, as they run one program; collectives within a stage match themselves.
void check_rendezvous(const ProgramSet& programs, const std::vector<HappensBefore>& order,
                      Violations& violations);

}  // namespace trainyard
