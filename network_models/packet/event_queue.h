#pragma once
#include <algorithm>
#include <cstdint>
#include <functional>
#include <queue>
#include <vector>

namespace trainyard {

inline constexpr std::int64_t kPsPerNs = 1000;

// What happens next to a port, a packet or a queue pair. Picoseconds: a packet of 1 KB takes 20 ns
// at 400 Gb/s.
struct PacketEvent {
  std::int64_t at = 0, order = 0;
  std::int32_t subject = 0, value = 0;
  std::uint8_t kind = 0;
  bool operator>(const PacketEvent& o) const { return at != o.at ? at > o.at : order > o.order; }
  bool operator<(const PacketEvent& o) const { return o > *this; }
};

// Events in order of time, and of arrival where times are equal: a wheel of short slots, each
// sorted when its turn comes, and a heap for what is further away (a calendar queue; Brown, CACM
// 1988).
class EventQueue {
 public:
  bool empty() const { return near_ == 0 && far_.empty(); }

  void push(PacketEvent event) {
    event.order = pushed_++;
    const std::int64_t slot = std::max(event.at >> kSlotBits, now_);
    if (slot >= now_ + kSlots) return far_.push(event);
    ++near_;
    std::vector<PacketEvent>& events = slots_[slot % kSlots];
    if (slot > now_)
      events.push_back(event);
    else  // among those of the open slot that are still to come
      events.insert(std::upper_bound(events.begin() + next_, events.end(), event), event);
  }

  // The first event; there must be one.
  const PacketEvent& front() {
    open();
    return slots_[now_ % kSlots][next_];
  }
  void pop() {
    ++next_;
    --near_;
  }

 private:
  static constexpr int kSlotBits = 14;  // 16 ns
  static constexpr std::int64_t kSlots = 4096;

  // Turns the wheel to the first slot that has events left.
  void open() {
    while (next_ == slots_[now_ % kSlots].size()) {
      slots_[now_ % kSlots].clear();
      next_ = 0;
      now_ = near_ == 0 ? far_.top().at >> kSlotBits : now_ + 1;
      for (; !far_.empty() && far_.top().at >> kSlotBits < now_ + kSlots; far_.pop()) {
        slots_[(far_.top().at >> kSlotBits) % kSlots].push_back(far_.top());
        ++near_;
      }
      std::ranges::sort(slots_[now_ % kSlots], std::less());
    }
  }

  std::vector<std::vector<PacketEvent>> slots_ = std::vector<std::vector<PacketEvent>>(kSlots);
  std::priority_queue<PacketEvent, std::vector<PacketEvent>, std::greater<>> far_;
  std::int64_t now_ = 0, near_ = 0, pushed_ = 0;
  std::size_t next_ = 0;  // in the open slot
};

}  // namespace trainyard
