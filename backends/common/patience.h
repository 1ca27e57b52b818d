#pragma once
#include <algorithm>
#include <chrono>
#include <thread>

#include "core/config/job.h"

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

// How long a rank of this job waits for another.
inline std::chrono::milliseconds timeout_of(const Job& job) {
  return std::chrono::milliseconds(static_cast<std::int64_t>(job.running.timeout_s * 1e3));
}

inline double in_seconds(std::chrono::milliseconds time) {
  return std::chrono::duration<double>(time).count();
}

}  // namespace trainyard
