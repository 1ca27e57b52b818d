#pragma once
#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "core/types.h"

namespace trainyard {

// Numbered items by the time they are due; equal times in the order of `order`. An item's time may
// change while it waits (a binary heap that knows where each item is).
class DueQueue {
 public:
  bool empty() const { return heap_.empty(); }
  Time due() const { return heap_.front().due; }
  std::int32_t item() const { return heap_.front().item; }
  // kNever if it does not wait.
  Time due(std::int32_t item) const {
    if (static_cast<std::size_t>(item) >= place_.size() || place_[item] == kAbsent) return kNever;
    return heap_[place_[item]].due;
  }

  // Adds `item`, or changes when it is due.
  void set(std::int32_t item, Time due, std::int64_t order) {
    if (static_cast<std::size_t>(item) >= place_.size()) place_.resize(item + 1, kAbsent);
    if (place_[item] == kAbsent) {
      place_[item] = static_cast<std::int32_t>(heap_.size());
      heap_.push_back({});
    }
    const Entry entry{due, order, item};
    const std::int32_t place = place_[item];
    heap_[place] = entry;
    settle(place);
  }

  void erase(std::int32_t item) {
    if (static_cast<std::size_t>(item) >= place_.size() || place_[item] == kAbsent) return;
    const std::int32_t hole = std::exchange(place_[item], kAbsent);
    const Entry last = heap_.back();
    heap_.pop_back();
    if (last.item == item) return;
    put(hole, last);
    settle(hole);
  }

 private:
  static constexpr std::int32_t kAbsent = -1;
  struct Entry {
    Time due;
    std::int64_t order = 0;
    std::int32_t item = 0;
    bool before(const Entry& o) const { return due != o.due ? due < o.due : order < o.order; }
  };

  void put(std::int32_t place, const Entry& entry) {
    heap_[place] = entry;
    place_[entry.item] = place;
  }

  // Moves the entry at `place` up or down to where it belongs.
  void settle(std::int32_t place) {
    const Entry entry = heap_[place];
    const auto size = static_cast<std::int32_t>(heap_.size());
    for (; place > 0 && entry.before(heap_[(place - 1) / 2]); place = (place - 1) / 2)
      put(place, heap_[(place - 1) / 2]);
    for (;;) {
      std::int32_t child = 2 * place + 1;
      if (child >= size) break;
      if (child + 1 < size && heap_[child + 1].before(heap_[child])) ++child;
      if (!heap_[child].before(entry)) break;
      put(place, heap_[child]);
      place = child;
    }
    put(place, entry);
  }

  std::vector<Entry> heap_;
  std::vector<std::int32_t> place_;  // of each item in heap_
};

}  // namespace trainyard
