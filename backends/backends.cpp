#include "backends/backends.h"

#include <fmt/format.h>

#include <array>
#include <string>

#include "backends/cpu/cpu_backend.h"
#include "backends/cuda/cuda_backend.h"
#include "core/error.h"

namespace trainyard {

std::span<const BackendEntry> backends() {
  static constexpr std::array kBackends{
      BackendEntry{"sim", "all ranks on a simulated cluster, in simulated time: trainyard sim",
                   nullptr, nullptr},
      BackendEntry{"cpu", "a process a rank on the processors of real machines", make_cpu_backend,
                   this_machine},
      BackendEntry{"cuda", "a process a rank, each on a GPU of its own, on one node or many",
                   make_cuda_backend, cuda_machine},
  };
  return kBackends;
}

const BackendEntry& training_backend(std::string_view name) {
  std::string names;
  for (const BackendEntry& entry : backends()) {
    if (entry.make == nullptr) {
      if (entry.name == name)
        throw ConfigError(fmt::format("backend \"{}\" does not train: {}", name, entry.summary));
      continue;
    }
    if (entry.name == name) return entry;
    names += fmt::format("{}{}", names.empty() ? "" : ", ", entry.name);
  }
  throw ConfigError(fmt::format("backend \"{}\" is unknown; valid: {}", name, names));
}

}  // namespace trainyard
