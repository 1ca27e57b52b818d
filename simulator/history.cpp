#include "simulator/history.h"

#include <algorithm>

#include "core/error.h"

namespace trainyard {

const Recording& History::of(std::int32_t island) {
  const auto found = std::ranges::find(kept_, island, &Entry::island);
  if (found != kept_.end()) {
    kept_.splice(kept_.begin(), kept_, found);
    return kept_.front().recording;
  }
  if (kept_.size() == kKept) kept_.pop_back();
  kept_.emplace_front(Entry{island, {}});
  Island replay(scene_, island, ends_, &kept_.front().recording);
  replay.run(crossings_);
  check(replay.finished(), "the replay of island {} does not end", island);
  return kept_.front().recording;
}

}  // namespace trainyard
