#include "network_models/congestion/dcqcn_mark_memory.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace trainyard {
namespace {

constexpr double kStepUs = DcqcnMarkMemory::kStepSeconds * 1e6;

std::size_t steps(double us) { return static_cast<std::size_t>(std::max(1.0, us / kStepUs)); }

}  // namespace

double dcqcn_without_mark(double p, double packets) {
  if (p <= 1e-15) return 1 / packets;
  return p / std::expm1(-packets * std::log1p(-p));
}

DcqcnMarkMemory::DcqcnMarkMemory(const DcqcnParameters& parameters) : of_(parameters) {
  const double longest = std::max(
      {of_.cut_interval_us, of_.alpha_interval_us, of_.increase_interval_us * of_.recovery_steps});
  // Before it started it had met no mark for long.
  past_.assign(steps(longest) + 1, {0, 0, 1 / (of_.increase_interval_us * 1e-6)});
}

const DcqcnMarkMemory::Moment& DcqcnMarkMemory::before(double span_us) const {
  return past_[(at_ + past_.size() - steps(span_us)) % past_.size()];
}

double DcqcnMarkMemory::unmarked(double span_us) const {
  return std::exp(before(span_us).marks - past_[at_].marks);
}

DcqcnResponse DcqcnMarkMemory::step(double p, double rate) {
  const double in_step = p * rate * kStepSeconds;
  const double marks = past_[at_].marks + in_step;
  at_ = (at_ + 1) % past_.size();
  past_[at_] = {marks, p * rate, 0};
  DcqcnResponse out;
  out.alpha_marked = 1 - unmarked(of_.alpha_interval_us);
  out.cuts = cuts(in_step);
  add_timed_rises(out);
  add_rises_by_bytes(out, rate);
  return out;
}

// Slots end all the time, each flow's at its own; what had a cut may have one again. In between
// the first mark of each cuts.
double DcqcnMarkMemory::cuts(double marks_in_step) {
  const double again = (1 - unmarked(of_.cut_interval_us)) * kStepUs / of_.cut_interval_us;
  const double unmarked = std::exp(-marks_in_step);
  const double left =
      uncut_ * unmarked + again * (marks_in_step > 1e-9 ? (1 - unmarked) / marks_in_step : 1);
  return (again + std::exchange(uncut_, left) - left) / kStepSeconds;
}

// A timer expires one interval after a mark or after it expired last, if no mark came between.
void DcqcnMarkMemory::add_timed_rises(DcqcnResponse& out) {
  const double interval_us = of_.increase_interval_us;
  const Moment& began = before(interval_us);
  past_[at_].expired_timers = (began.rate + began.expired_timers) * unmarked(interval_us);
  const double late_us = of_.recovery_steps * interval_us;
  out.rises += past_[at_].expired_timers;
  out.late_rises += before(late_us).expired_timers * unmarked(late_us);
}

// The byte counter takes far longer than a queue's swings: by the mean of the last timer interval.
void DcqcnMarkMemory::add_rises_by_bytes(DcqcnResponse& out, double rate) const {
  if (rate <= 0) return;
  const double log =
      std::log(unmarked(of_.increase_interval_us)) / (rate * of_.increase_interval_us * 1e-6);
  const double packets = of_.increase_bytes / of_.packet_bytes;
  const double rises = rate * dcqcn_without_mark(-std::expm1(log), packets);
  out.rises += rises;
  out.late_rises += rises * std::exp(of_.recovery_steps * packets * log);
}

}  // namespace trainyard
