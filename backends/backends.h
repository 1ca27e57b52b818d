#pragma once
#include <memory>
#include <span>
#include <string_view>

#include "backends/common/calibration/calibration.h"
#include "backends/common/real_backend.h"
#include "core/config/job.h"

namespace trainyard {

struct BackendEntry {
  std::string_view name;
  std::string_view summary;  // a line for `help`
  // Makes one rank of it. Null: it does not do the mathematics. A build without the backend has a
  // maker that says how to get it.
  std::unique_ptr<RealBackend> (*make)(const Job& job, const RealBackendOptions& options);
  Machine (*machine)();  // what it computes on here; null with `make`
};

// All backends, built or not.
std::span<const BackendEntry> backends();

// The entry of a backend that trains. Throws ConfigError with the valid names if there is no
// backend called `name`, or if it does not train.
const BackendEntry& training_backend(std::string_view name);

}  // namespace trainyard
