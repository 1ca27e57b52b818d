#pragma once
#include <cstddef>
#include <vector>

#include "core/types.h"
#include "network_models/congestion/dcqcn.h"

namespace trainyard {

// Chance that a packet completes `packets` without a mark: p / ((1 - p)^-n - 1) (CoNEXT 2016).
double dcqcn_without_mark(double p, double packets);

// What a flow's card makes of marks that come and go, in the mean over the phases of its slots and
// packets. Where the probability stays the same for long, this is what the published equations
// have. Marks come at the rate m = p times the flow's, so the chance to meet none in a span is
// exp(-integral of m).
class DcqcnMarkMemory {
 public:
  // A quarter as long as marks are late at least; halved once more, queues change by half a
  // percent.
  static constexpr Time kStep = nanoseconds(250);
  static constexpr double kStepSeconds = 250e-9;

  explicit DcqcnMarkMemory(const DcqcnParameters& parameters);
  // One kStep on, with a flow of `rate` packets a second and marks of probability `p`.
  DcqcnResponse step(double p, double rate);

 private:
  struct Moment {
    double marks = 0;           // since the start
    double rate = 0;            // of marks, a second
    double expired_timers = 0;  // a second
  };
  const Moment& before(double span_us) const;
  double unmarked(double span_us) const;  // chance to have met no mark for so long
  double cuts(double marks_in_step);
  void add_timed_rises(DcqcnResponse& out);
  void add_rises_by_bytes(DcqcnResponse& out, double rate) const;

  DcqcnParameters of_;
  std::vector<Moment> past_;  // a ring
  std::size_t at_ = 0;        // the newest
  double uncut_ = 1;          // chance that the slot of now has had no cut
};

}  // namespace trainyard
