#pragma once
#include <memory>
#include <span>
#include <string_view>

#include "core/config/job.h"
#include "core/engine/backend.h"

namespace trainyard {

struct BackendEntry {
  std::string_view name;
  std::string_view summary;  // a line for `help`
  bool built;                // false: this build has no such backend, and make() says how to get it
  std::unique_ptr<Backend> (*make)(const Job& job);
};

// All backends, built or not.
std::span<const BackendEntry> backends();

// Throws ConfigError with the valid names when there is no backend called `name`.
std::unique_ptr<Backend> make_backend(std::string_view name, const Job& job);

}  // namespace trainyard
