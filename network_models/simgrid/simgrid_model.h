#pragma once
#include <memory>

#include "core/config/job.h"
#include "network_models/network_model.h"

namespace trainyard {

// Throws ConfigError in builds without SimGrid, for jobs with a congestion control, which it cannot
// honour, and where another such model is alive: SimGrid has one engine a process.
std::unique_ptr<NetworkModel> make_simgrid_model(const Job& job);

}  // namespace trainyard
