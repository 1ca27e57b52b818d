#pragma once
#include <algorithm>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "core/types.h"

namespace trainyard {

// DCQCN (Zhu et al., SIGCOMM 2015) as cards and switches are set.
struct DcqcnParameters {
  std::string_view name, summary;
  // Card: least time between two cuts; alpha decays and rates rise at these intervals, or rise
  // after so many bytes; steps of fast recovery; weight of a mark in alpha; additive step.
  double cut_interval_us, alpha_interval_us, increase_interval_us;
  double increase_bytes;
  double recovery_steps, gain;
  double additive_mbps, hyper_mbps;  // hyper: of steps after the first additive one; 0: as additive
  // Cuts in a row come back to the rate before the first of them, not before the last.
  bool keeps_target;
  // Switch: no mark below the one queue length, all marked above the other, a straight line
  // between.
  double k_min_bytes, k_max_bytes, p_max;
  double packet_bytes;
  bool scales;  // thresholds and steps, given for 25 Gb/s, are in proportion to the port

  // Receivers answer the first mark of every such slot: often enough for cuts and alpha.
  double notify_interval_us() const { return std::min(cut_interval_us, alpha_interval_us); }
  double mark_probability(double queue_bytes) const;
};

// The parameter sets there are.
std::span<const DcqcnParameters> dcqcn_parameters();

// The entry called `name`; ConfigError with the valid names if there is none, and with a line about
// each if `name` is "help". Switch thresholds and steps that vendors scale with the port are
// scaled.
DcqcnParameters dcqcn_parameters(std::string_view name, Bandwidth port);

// Where the fluid model of `flows` flows through a port rests.
struct DcqcnFixedPoint {
  double mark_probability = 0, alpha = 0, queue_bytes = 0;
};
DcqcnFixedPoint dcqcn_fixed_point(const DcqcnParameters& parameters, Bandwidth port, int flows);

// Flows through one port of a switch, by the fluid model of Zhu, Ghobadi, Misra and Padhye, "ECN or
// Delay" (CoNEXT 2016, section 3), integrated by Euler's method: rates and queue are means over
// many packets. Marks are seen `delay` late. Without PFC: the queue has no end.
class DcqcnFluid {
 public:
  DcqcnFluid(const DcqcnParameters& parameters, Bandwidth port, Time delay);

  // A flow that starts at `rate`; cards start at line rate. Returns its number.
  std::int32_t add(Bandwidth rate);
  void remove(std::int32_t flow);  // it sends no more
  void advance(Time span);

  Time now() const { return now_; }
  double queue_bytes() const { return queue_ * parameters_.packet_bytes; }
  Bandwidth rate(std::int32_t flow) const;
  double alpha(std::int32_t flow) const { return flows_[flow].alpha; }

 private:
  struct Flow {
    double alpha = 1, target = 0, current = 0;  // packets per second
    std::vector<double> past;                   // of `current`, a ring like marks_
    bool sends = true;
  };
  struct Marking;
  struct Response;

  void step();
  double mark_probability() const;
  Response response(double rate, const Marking& marking) const;
  void react(Flow& flow, const Response& to) const;

  DcqcnParameters parameters_;
  double port_;  // packets per second
  std::size_t delay_steps_;
  std::vector<double> marks_;  // probabilities of the last delay_steps_ steps
  std::size_t at_ = 0;         // the oldest of them
  std::vector<Flow> flows_;
  double queue_ = 0;  // packets
  Time now_;
};

}  // namespace trainyard
