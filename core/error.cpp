#include "core/error.h"

#include <fmt/ranges.h>

namespace trainyard {

ConfigError::ConfigError(std::vector<std::string> violations)
    : std::runtime_error(fmt::format("{}", fmt::join(violations, "\n"))),
      violations_(std::move(violations)) {}

}  // namespace trainyard
