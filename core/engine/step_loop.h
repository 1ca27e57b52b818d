#pragma once
#include "core/engine/backend.h"
#include "core/mesh/mesh.h"
#include "core/program/program.h"

namespace trainyard {

// Runs one step: every local rank of the backend gets the program of its pipeline stage. Returns
// when all of them have ended, one has failed, or `deadline` (of the backend's clock) is reached.
StepReport run_step(Backend& backend, const ProgramSet& programs, const Mesh& mesh,
                    StepInputs inputs, Time deadline);

}  // namespace trainyard
