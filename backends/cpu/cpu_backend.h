#pragma once
#include <memory>

#include "core/config/job.h"
#include "core/engine/backend.h"

namespace trainyard {

// Runs one rank's programs on this machine's processor. Throws ConfigError in a build without it.
std::unique_ptr<Backend> make_cpu_backend(const Job& job);

}  // namespace trainyard
