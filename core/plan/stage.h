#pragma once
#include "core/config/job.h"
#include "core/program/program.h"

namespace trainyard {

// What a program is for; an evaluation has no backward passes, reductions of gradients or updates.
enum class Purpose : std::uint8_t { training, evaluation };

// Emits the passes of one stage and strings them together: set-up, the pipeline order with its
// transfers, and the finish (norm, optimizer). Waits and offsets are still to be derived.
Program assemble_stage(const Job& job, std::int32_t stage, Purpose purpose = Purpose::training);

}  // namespace trainyard
