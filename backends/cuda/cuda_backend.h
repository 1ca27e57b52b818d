#pragma once
#include <memory>

#include "backends/common/calibration/calibration.h"
#include "backends/common/real_backend.h"

namespace trainyard {

// Runs one rank's programs on a GPU of this host, a CUDA stream a stream. Throws ConfigError when
// there is none that fits, and in a build without it.
std::unique_ptr<RealBackend> make_cuda_backend(const Job& job, const RealBackendOptions& options);

// This host's GPUs, of the first one's kind. Throws as above.
Machine cuda_machine();

}  // namespace trainyard
