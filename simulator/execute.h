#pragma once
#include "simulator/costs.h"
#include "simulator/simulation.h"

namespace trainyard {

// simulate() with given costs instead of the cluster's models.
SimulationResult execute(const Job& job, const ProgramSet& programs,
                         const SimulationOptions& options, const Costs& costs);

}  // namespace trainyard
