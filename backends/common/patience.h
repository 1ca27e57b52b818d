#pragma once
#include <algorithm>
#include <chrono>
#include <thread>

namespace trainyard {

// The time left to wait for others, looking for them ever more rarely.
class Patience {
 public:
  explicit Patience(std::chrono::milliseconds timeout) : deadline_(Clock::now() + timeout) {}
  bool ended() const { return Clock::now() >= deadline_; }
  void rest() {
    constexpr std::chrono::milliseconds kLongestPause{50};
    std::this_thread::sleep_for(pause_);
    pause_ = std::min(2 * pause_, kLongestPause);
  }

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point deadline_;
  std::chrono::milliseconds pause_{1};
};

inline double in_seconds(std::chrono::milliseconds time) {
  return std::chrono::duration<double>(time).count();
}

}  // namespace trainyard
