#pragma once
#include <string_view>

#include "core/config/job.h"
#include "core/types.h"
#include "network_models/congestion/dcqcn_card.h"

namespace trainyard {

// How cards react to congestion. `ideal` is no protocol: rates are fair at once.
enum class Control : std::uint8_t { ideal, none, dcqcn, swift, hybrid };

// Throws ConfigError with the valid names.
Control control_named(std::string_view name);

// Swift (Kumar et al., SIGCOMM 2020), its window paced over the latest round trip: one packet more
// in a round trip whose queueing is below the target (below a window of one packet: one more for
// each that arrives), and at most once in a round trip a cut in proportion to the excess. A small
// window has a higher target (scaling by flows): one whose packets meet several queues, or come
// rarely, would be cut at each of them. Constants of csg-htsim's model (sim/swift.cpp at 841d9e7);
// the target is of queueing alone, so it needs no scaling by hops.
struct SwiftParameters {
  double target_us = 20;
  double packet_bytes = 4096;
  double beta = 0.8, most_cut = 0.5;
  double range = 5;                         // the highest target is so many times more
  double least_window = 0.1, window = 100;  // packets: where that is, and where nothing is added

  double target_of(double window_packets) const;
};

struct ControlParameters {
  Control control = Control::dcqcn;
  DcqcnParameters dcqcn{};
  SwiftParameters swift{};

  bool marks() const { return control == Control::dcqcn || control == Control::hybrid; }
  bool delays() const { return control == Control::swift || control == Control::hybrid; }
};

// Those that the job's network and cards ask for. Throws ConfigError.
ControlParameters control_parameters(const Cluster& cluster, const Network& network);

// What an acknowledgement tells a card.
struct DelaySample {
  Time now;
  double queueing_us = 0, round_trip_us = 0;  // round trip: queueing included
  double bytes = 0;                           // acknowledged since the last one
};

// The rate a card gives one queue pair. `hybrid` is MegaScale's (NSDI 2024, section 3.6: the round
// trip times of Swift and the fast reaction to marks of DCQCN), of which no formula is published:
// here marks cut as in DCQCN, delays cut and raise as in Swift.
class RateControl {
 public:
  // The parameters must outlive it.
  RateControl(const ControlParameters& parameters, Bandwidth line, Time start);

  double rate() const { return of_->delays() ? rate_ : card_.rate(); }  // bytes per second
  double line() const { return card_.line(); }
  double alpha(Time now) const { return card_.alpha(now); }
  // True: the rate changed.
  bool notify(Time now);
  bool sample(const DelaySample& sample);
  Time next_rise() const { return of_->delays() ? kNever : card_.next_rise(); }
  void rise() { card_.rise(); }
  bool sent(double bytes) { return !of_->delays() && card_.sent(bytes); }

 private:
  void set_window(double bytes);

  const ControlParameters* of_;
  DcqcnCard card_;
  double rate_;                           // of Swift and hybrid: a window in each round trip
  double window_ = 0, round_trip_s_ = 0;  // the latest one; 0: none was measured yet
  Time cut_at_{-1'000'000'000'000};
};

}  // namespace trainyard
