#pragma once
#include "core/config/job.h"
#include "core/program/program.h"

namespace trainyard {

// Compiles the job into one program per stage: runs the passes of core/plan in order, lays out
// memory and proves the result sound. Throws ConfigError when the job cannot be planned.
ProgramSet plan(const Job& job);

}  // namespace trainyard
