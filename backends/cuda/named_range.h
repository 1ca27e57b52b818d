#pragma once
#include <nvtx3/nvToolsExt.h>

#include <string>

namespace trainyard {

// What is issued from here to the end of the scope has a name in profilers (NVTX).
class NamedRange {
 public:
  explicit NamedRange(const std::string& name) { nvtxRangePushA(name.c_str()); }
  ~NamedRange() { nvtxRangePop(); }
  NamedRange(const NamedRange&) = delete;
  NamedRange& operator=(const NamedRange&) = delete;
};

}  // namespace trainyard
