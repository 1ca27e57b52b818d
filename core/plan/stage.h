#pragma once
#include "core/config/job.h"
#include "core/program/program.h"

namespace trainyard {

// Emits the passes of one stage and strings them together: set-up, the pipeline order with its
// transfers, and the finish (norm, optimizer). Waits and offsets are still to be derived.
Program assemble_stage(const Job& job, std::int32_t stage);

}  // namespace trainyard
