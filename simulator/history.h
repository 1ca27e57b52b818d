#pragma once
#include <cstdint>
#include <list>

#include "simulator/crossing.h"
#include "simulator/island.h"
#include "simulator/scene.h"

namespace trainyard {

// What happened on each island, found by running it once more with the crossings' known ends. A
// run keeps no record of its own: of hundreds of islands, a critical path visits a few.
class History {
 public:
  History(const Scene& scene, const Crossings& crossings, TransferEnds& ends)
      : scene_(scene), crossings_(crossings), ends_(ends) {}
  // Valid until the next call with another island.
  const Recording& of(std::int32_t island);

 private:
  static constexpr std::size_t kKept = 4;
  struct Entry {
    std::int32_t island;
    Recording recording;
  };
  const Scene& scene_;
  const Crossings& crossings_;
  TransferEnds& ends_;
  std::list<Entry> kept_;  // latest use first
};

}  // namespace trainyard
