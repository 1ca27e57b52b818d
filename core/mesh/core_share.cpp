#include "core/mesh/core_share.h"

#include <algorithm>

namespace trainyard {

CoreShare core_share(std::int32_t place, std::int32_t ranks, std::int32_t cores,
                     std::int32_t threads) {
  const std::int32_t each = std::max(1, cores / ranks);
  const bool uneven = ranks > cores && ranks % cores != 0;
  if (uneven || threads > each) return {0, cores};
  return {place * each % cores, each};
}

}  // namespace trainyard
