#pragma once
#include <memory>

#include "backends/common/real_backend.h"

namespace trainyard {

// Runs one rank's programs on this machine's processor, a thread a stream. Throws ConfigError in a
// build without it.
std::unique_ptr<RealBackend> make_cpu_backend(const Job& job, const RealBackendOptions& options);

}  // namespace trainyard
