#pragma once
#include <string>

#include "core/report/step_compare.h"

namespace trainyard {

// The trace of `path`, plain or gzip, read piece by piece: the text is never held whole. Throws
// ConfigError, naming the file, for one that cannot be read, is no trace or is cut off.
TracedStep read_trace(const std::string& path);

}  // namespace trainyard
