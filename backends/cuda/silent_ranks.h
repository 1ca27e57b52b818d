#pragma once
#include <chrono>
#include <string>

#include "backends/common/store.h"
#include "core/types.h"

namespace trainyard {

struct OwnPlace {
  RankId rank{};
  std::int32_t ranks = 1;
  std::chrono::milliseconds timeout{};  // of the job, by which ranks find out at different times
};

// After a failure: leaves where this rank is in the store, gives the others a part of the time-out
// to do the same, and returns "; rank 1 is in …; ranks are silent: 2, 3" with the last instructions
// of all who told of them (`dump`, a line each). Never throws.
std::string where_all_are(Store& store, const OwnPlace& own, const std::string& position,
                          const std::string& dump);

}  // namespace trainyard
