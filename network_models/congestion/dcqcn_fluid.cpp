#include <algorithm>
#include <cmath>
#include <utility>

#include "network_models/congestion/dcqcn.h"
#include "network_models/congestion/dcqcn_mark_memory.h"

namespace trainyard {
namespace {

constexpr Time kStep = DcqcnMarkMemory::kStep;
constexpr double kStepSeconds = DcqcnMarkMemory::kStepSeconds;

// Equations 5 to 7 of CoNEXT 2016 for a flow of `rate` packets a second. With log = ln(1 - p),
// (1 - p)^n = exp(n log).
DcqcnResponse published_response(const DcqcnParameters& of, double p, double rate) {
  const double log = std::log1p(-p);
  const auto marked = [log](double packets) {
    return packets > 0 ? -std::expm1(packets * log) : 0;
  };
  DcqcnResponse out;
  const auto add_rises = [&](double packets) {
    const double rises = rate * dcqcn_without_mark(p, packets);
    out.rises += rises;
    out.late_rises += rises * std::exp(of.recovery_steps * packets * log);
  };
  const double timed = of.increase_interval_us * 1e-6 * rate;
  add_rises(of.increase_bytes / of.packet_bytes);
  if (timed > 0) add_rises(timed);
  out.cuts = marked(of.cut_interval_us * 1e-6 * rate) / (of.cut_interval_us * 1e-6);
  out.alpha_marked = marked(of.alpha_interval_us * 1e-6 * rate);
  return out;
}

}  // namespace

DcqcnFluid::DcqcnFluid(const DcqcnParameters& parameters, Bandwidth port, Time delay,
                       DcqcnMarks marks)
    : parameters_(parameters),
      marked_(marks),
      port_(port.value / parameters.packet_bytes),
      delay_steps_(static_cast<std::size_t>(std::max<std::int64_t>(1, delay.value / kStep.value))),
      marks_(delay_steps_, 0.0) {}

DcqcnFluid::~DcqcnFluid() = default;
DcqcnFluid::DcqcnFluid(DcqcnFluid&&) noexcept = default;
DcqcnFluid& DcqcnFluid::operator=(DcqcnFluid&&) noexcept = default;

std::int32_t DcqcnFluid::add(Bandwidth rate) {
  const double start = rate.value / parameters_.packet_bytes;
  if (alike_.empty() || alike_.back().since != now_ || alike_.back().start != start) {
    Alike& added = alike_.emplace_back();
    added.since = now_;
    added.start = added.target = added.current = start;
    added.past.assign(delay_steps_, 0.0);
    if (marked_ == DcqcnMarks::of_packets)
      added.memory = std::make_unique<DcqcnMarkMemory>(parameters_);
  }
  ++alike_.back().flows;
  ++senders_;
  flows_.push_back({alike_.size() - 1, true});
  return static_cast<std::int32_t>(flows_.size()) - 1;
}

void DcqcnFluid::remove(std::int32_t flow) {
  if (!std::exchange(flows_[flow].sends, false)) return;
  --alike_[flows_[flow].alike].flows;
  --senders_;
}

Bandwidth DcqcnFluid::rate(std::int32_t flow) const {
  const Sender& of = flows_[flow];
  return {of.sends ? alike_[of.alike].current * parameters_.packet_bytes : 0};
}

double DcqcnFluid::mark_probability() const {
  if (marked_ == DcqcnMarks::published) return parameters_.mark_probability(queue_bytes());
  const double deviation = std::sqrt(senders_ / 12.0) * parameters_.packet_bytes;
  return parameters_.mark_probability(queue_bytes(), deviation);
}

void DcqcnFluid::advance(Time span) {
  for (const Time end = now_ + span; now_ < end; now_ += kStep) step();
}

void DcqcnFluid::step() {
  const double p = std::exchange(marks_[at_], mark_probability());
  double arriving = 0;
  for (Alike& each : alike_) {
    if (each.flows == 0) continue;
    arriving += each.flows * each.current;
    const double delayed_rate = std::exchange(each.past[at_], each.current);
    react(each, each.memory ? each.memory->step(p, delayed_rate)
                            : published_response(parameters_, p, delayed_rate));
  }
  queue_ = std::max(0.0, queue_ + (arriving - port_) * kStepSeconds);
  at_ = (at_ + 1) % delay_steps_;
}

void DcqcnFluid::react(Alike& flow, const DcqcnResponse& to) const {
  const DcqcnParameters& of = parameters_;
  const double additive = of.additive_mbps * 1e6 / 8 / of.packet_bytes;
  const double gap = flow.target - flow.current;
  const double d_alpha = of.gain / (of.alpha_interval_us * 1e-6) * (to.alpha_marked - flow.alpha);
  const double d_target = -gap * to.cuts + additive * to.late_rises;
  const double d_current = -flow.current * flow.alpha / 2 * to.cuts + gap / 2 * to.rises;
  flow.alpha = std::clamp(flow.alpha + d_alpha * kStepSeconds, 0.0, 1.0);
  flow.target = std::clamp(flow.target + d_target * kStepSeconds, 0.0, port_);
  flow.current = std::clamp(flow.current + d_current * kStepSeconds, 0.0, port_);
}

}  // namespace trainyard
