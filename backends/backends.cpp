#include "backends/backends.h"

#include <fmt/format.h>

#include <array>
#include <string>

#include "backends/sim/sim_backend.h"
#include "core/error.h"

namespace trainyard {

std::span<const BackendEntry> backends() {
  static constexpr std::array kBackends{
      BackendEntry{"sim", "all ranks on a simulated cluster, in simulated time", true,
                   [](const Job& job) -> std::unique_ptr<Backend> {
                     return std::make_unique<SimBackend>(job);
                   }},
  };
  return kBackends;
}

std::unique_ptr<Backend> make_backend(std::string_view name, const Job& job) {
  std::string names;
  for (const BackendEntry& entry : backends()) {
    if (entry.name == name) return entry.make(job);
    names += fmt::format("{}{}", names.empty() ? "" : ", ", entry.name);
  }
  throw ConfigError(fmt::format("backend \"{}\" is unknown; valid: {}", name, names));
}

}  // namespace trainyard
