#pragma once
#include <cstdint>

#include "core/types.h"

namespace trainyard {

// When an instruction of a rank's program ran, waits for its peers included.
struct TraceEvent {
  RankId rank;
  std::uint32_t instr;  // index in the rank's program
  Time start, end;      // of one clock for all ranks of a host
};

}  // namespace trainyard
