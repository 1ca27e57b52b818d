#pragma once
#include <chrono>

#include "backends/common/calibration/kernel_times.h"

namespace trainyard {

// Times kernels of trainings in `precision` on a device that is the rank's own, for about `limit`
// (shapes beyond are left out), and what it takes to issue a kernel and to copy from the host.
void time_device(Precision precision, std::chrono::seconds limit, const MakeBackend& make,
                 Samples& samples);

}  // namespace trainyard
