#pragma once
#include "core/config/job.h"
#include "core/program/program.h"

namespace trainyard {

// Compiles the job into one program per stage: runs the passes of core/plan in order, lays out
// memory and proves the result sound. Throws ConfigError when the job cannot be planned.
ProgramSet plan(const Job& job);

// The same for an evaluation: forward passes and the loss alone, without dropout. Buffers that
// persist lie where those of plan(job) do, so both work on the same parameters.
ProgramSet plan_evaluation(const Job& job);

}  // namespace trainyard
