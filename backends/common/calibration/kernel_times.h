#pragma once
#include <functional>
#include <memory>
#include <vector>

#include "backends/common/calibration/samples.h"
#include "backends/common/real_backend.h"
#include "core/config/job.h"

namespace trainyard {

using MakeBackend =
    std::function<std::unique_ptr<RealBackend>(const Job&, const RealBackendOptions&)>;

// What counts as a kernel's time: from the end of the one before where it could start then, so that
// what the stream does between two kernels counts too, or from its own start.
enum class KernelSpan : std::uint8_t { since_previous, own };

// Trains `job` of one rank for some steps, and adds what each of its distinct kernels took: the
// mean over its places in the usual steps, by the backend's own clock. The rank keeps to
// `processors`.
void time_kernels(const Job& job, const Processors& processors, const MakeBackend& make,
                  std::vector<KernelSample>& samples, KernelSpan span = KernelSpan::since_previous);

}  // namespace trainyard
