#pragma once
#include "backends/common/run_observer.h"

namespace trainyard {

// How fast steps were: of one, of an interval, of a whole run.
struct RunRate {
  std::int64_t tokens = 0;
  Time time;

  void add(const StepRecord& record) {
    tokens += record.tokens;
    time += record.time;
  }
  // NaN as long as no time has passed.
  double tokens_per_s() const { return static_cast<double>(tokens) / to_seconds(time); }
  // Model FLOPs (no recompute) over what all ranks could do in the time; NaN when no peak is
  // stated.
  double mfu(const RunFacts& facts) const {
    if (!(facts.peak.value > 0)) return std::numeric_limits<double>::quiet_NaN();
    return tokens_per_s() * facts.model_flops_per_token / (facts.ranks * facts.peak.value);
  }
};

}  // namespace trainyard
