#pragma once
#include <cstdint>

namespace trainyard {

// Cores `first` to `first + count - 1` of a node.
struct CoreShare {
  std::int32_t first = 0, count = 0;
};

// The cores of a node of `cores` that belong to the rank at `place` (from 0) of the `ranks` there,
// whose kernels run on `threads` threads: equal neighbouring shares; one core that it shares with
// every `cores`-th rank where there are more ranks than cores. All cores where the ranks would not
// share them evenly, or where the share has fewer cores than the rank has threads.
CoreShare core_share(std::int32_t place, std::int32_t ranks, std::int32_t cores,
                     std::int32_t threads);

}  // namespace trainyard
