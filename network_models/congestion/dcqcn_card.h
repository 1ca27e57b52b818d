#pragma once
#include "core/types.h"
#include "network_models/congestion/dcqcn.h"

namespace trainyard {

// What DCQCN at a card (the reaction point) does to the rate of one queue pair: congestion
// notifications cut it, a timer and a byte counter raise it: back to where it was in steps of fast
// recovery, then further in additive and hyper steps. Cuts and alpha go by slots of time: one cut a
// slot, and alpha moves by whether its slot saw a mark, which is worked out when it is asked for.
class DcqcnCard {
 public:
  // Starts at `line`; slots count from `start`. The parameters must outlive the card.
  DcqcnCard(const DcqcnParameters& parameters, Bandwidth line, Time start);

  double rate() const { return rate_; }  // bytes per second
  double target() const { return target_; }
  double line() const { return line_; }
  double alpha(Time now) const;
  // A notification has arrived. True: it cut the rate.
  bool notify(Time now);
  // When the timer raises the rate next; kNever at line rate.
  Time next_rise() const { return next_rise_; }
  void rise();
  // So many bytes more have been sent. True: the byte counter raised the rate.
  bool sent(double bytes);

 private:
  std::int64_t slot(Time now, double interval_us) const;
  void increase(int stage);

  const DcqcnParameters* of_;
  double line_, rate_, target_, alpha_ = 1, bytes_ = 0;
  Time start_, next_rise_ = kNever;
  std::int64_t alpha_slot_ = 0, cut_slot_ = -1;  // of the last mark, of the last cut
  int time_stage_ = 0, byte_stage_ = 0;
  bool marked_ = false, rose_ = true;  // at all; since the last cut
};

}  // namespace trainyard
