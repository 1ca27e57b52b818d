#pragma once
#include <algorithm>
#include <cstdint>
#include <memory>
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
  // The mean over queues spread normally about `queue_bytes`.
  double mark_probability(double queue_bytes, double deviation_bytes) const;
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

// What marks do to a flow, per second.
struct DcqcnResponse {
  double rises = 0, late_rises = 0;  // late: past fast recovery
  double cuts = 0;
  double alpha_marked = 0;  // chance that a slot of alpha has a mark
};

// How a flow's packets meet marks in the fluid model.
enum class DcqcnMarks : std::uint8_t {
  // By the published equations: with the marking probability of the mean queue, as if it had been
  // the same for long.
  published,
  // As paced packets meet them. Each flow has sent up to half a packet more or less than its fluid,
  // so the queue that a packet meets deviates by sqrt(flows / 12) packets and the probability is
  // the mean over that; cards answer one mark a slot, so flows cut in this slot are not cut again,
  // alpha and timers go by the marks of their own last interval.
  of_packets,
};

class DcqcnMarkMemory;

// Flows through one port of a switch, by the fluid model of Zhu, Ghobadi, Misra and Padhye, "ECN or
// Delay" (CoNEXT 2016, section 3), integrated by Euler's method: rates and queue are means over
// many packets. Marks are seen `delay` late. Without PFC: the queue has no end.
class DcqcnFluid {
 public:
  DcqcnFluid(const DcqcnParameters& parameters, Bandwidth port, Time delay,
             DcqcnMarks marks = DcqcnMarks::published);
  ~DcqcnFluid();
  DcqcnFluid(DcqcnFluid&&) noexcept;
  DcqcnFluid& operator=(DcqcnFluid&&) noexcept;

  // A flow that starts at `rate`; cards start at line rate. Returns its number.
  std::int32_t add(Bandwidth rate);
  void remove(std::int32_t flow);  // it sends no more
  void advance(Time span);

  Time now() const { return now_; }
  double queue_bytes() const { return queue_ * parameters_.packet_bytes; }
  Bandwidth rate(std::int32_t flow) const;
  double alpha(std::int32_t flow) const { return alike_[flows_[flow].alike].alpha; }

 private:
  // Flows that started together at the same rate stay alike.
  struct Alike {
    Time since;
    double start = 0;
    std::int32_t flows = 0;
    double alpha = 1, target = 0, current = 0;  // packets per second
    std::vector<double> past;                   // of `current`, a ring like marks_
    std::unique_ptr<DcqcnMarkMemory> memory;    // null: as published
  };
  struct Sender {
    std::size_t alike = 0;
    bool sends = true;
  };

  void step();
  double mark_probability() const;
  void react(Alike& flow, const DcqcnResponse& to) const;

  DcqcnParameters parameters_;
  DcqcnMarks marked_;
  double port_;  // packets per second
  std::size_t delay_steps_;
  std::vector<double> marks_;  // probabilities of the last delay_steps_ steps
  std::size_t at_ = 0;         // the oldest of them
  std::vector<Alike> alike_;
  std::vector<Sender> flows_;
  std::int32_t senders_ = 0;
  double queue_ = 0;  // packets
  Time now_;
};

}  // namespace trainyard
