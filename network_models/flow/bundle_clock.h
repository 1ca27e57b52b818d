#pragma once
#include <cstdint>
#include <set>

#include "core/types.h"

namespace trainyard {

// Bytes that each flow of a bundle has sent since the first one came, and who ends at which count:
// so a change of their rate concerns the clock alone, and only the first to end has a time.
class BundleClock {
 public:
  struct End {
    double served;       // what the clock shows then
    std::int64_t order;  // of those that end together
    std::int32_t slot;
    auto operator<=>(const End&) const = default;
  };

  double served(Time now) const { return served_ + rate_ * to_seconds(now - since_); }
  double rate() const { return rate_; }
  void set_rate(double rate, Time now) {
    served_ = ends_.empty() ? 0 : served(now);  // short numbers are exact ones
    since_ = now;
    rate_ = rate;
  }

  void add(const End& end) { ends_.insert(end); }
  void erase(const End& end) { ends_.erase(end); }
  bool empty() const { return ends_.empty(); }
  const End& first() const { return *ends_.begin(); }

  std::int32_t due = -1;  // the slot that has a time

 private:
  double served_ = 0, rate_ = 0;
  Time since_;
  std::set<End> ends_;
};

}  // namespace trainyard
