#include "network_models/congestion/dcqcn.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <utility>

#include "core/error.h"

namespace trainyard {
namespace {

constexpr Time kStep = nanoseconds(1000);
constexpr double kStepSeconds = 1e-6;

// `paper`: the fluid model's own (CoNEXT 2016, table 1). `nvidia`: defaults of ConnectX cards
// (DOCA, "DCQCN CC Parameters"), without its byte counter, whose unit is not published; thresholds
// and steps as HPCC's simulator scales them with the port, here for 25 Gb/s (simulation/run.py at
// 9f4be2a). The packet is a maximal Ethernet payload. The fluid model has no hyper increase.
constexpr double kNoBytes = 1e15;
constexpr std::array kSets{
    DcqcnParameters{"paper", "as analysed and published, 40 Gb/s", 50, 55, 55, 10e6, 5, 1.0 / 256,
                    40, 0, false, 5e3, 200e3, 0.01, 1000, false},
    DcqcnParameters{"nvidia", "defaults of ConnectX cards, thresholds scaled with the port", 4, 1,
                    300, kNoBytes, 1, 5.0 / 1024, 5, 50, true, 100e3, 400e3, 0.2, 1000, true}};

double packets_per_second(const DcqcnParameters& of, Bandwidth rate) {
  return rate.value / of.packet_bytes;
}

}  // namespace

double DcqcnParameters::mark_probability(double queue_bytes) const {
  if (queue_bytes <= k_min_bytes) return 0;
  if (queue_bytes > k_max_bytes) return 1;
  return p_max * (queue_bytes - k_min_bytes) / (k_max_bytes - k_min_bytes);
}

std::span<const DcqcnParameters> dcqcn_parameters() { return kSets; }

DcqcnParameters dcqcn_parameters(std::string_view name, Bandwidth port) {
  std::string valid;
  for (const DcqcnParameters& each : kSets) {
    if (each.name == name) {
      DcqcnParameters out = each;
      if (!out.scales) return out;
      const double scale = port.value * 8e-9 / 25;
      out.additive_mbps *= scale;
      out.hyper_mbps *= scale;
      out.k_min_bytes *= scale;
      out.k_max_bytes *= scale;
      return out;
    }
    valid += name == "help" ? fmt::format("\n  {:<8} {}", each.name, each.summary)
                            : fmt::format("{}{}", valid.empty() ? "" : ", ", each.name);
  }
  if (name == "help") throw ConfigError("DCQCN parameters:" + valid);
  throw ConfigError(fmt::format("unknown DCQCN parameters '{}'; valid: {}", name, valid));
}

// What a mark probability does to a flow that sends `rate` packets a second (CoNEXT 2016,
// equations 5 to 7). With log = ln(1 - p), (1 - p)^n = exp(n log).
struct DcqcnFluid::Marking {
  double p, log, by_bytes, by_bytes_late;  // rises a packet: all, and those past fast recovery

  Marking(const DcqcnParameters& of, double p) : p(p), log(std::log1p(-p)) {
    const double packets = of.increase_bytes / of.packet_bytes;
    by_bytes = without_mark(packets);
    by_bytes_late = by_bytes * std::exp(of.recovery_steps * packets * log);
  }
  // Chance that a packet completes `packets` without a mark: p / ((1 - p)^-n - 1).
  double without_mark(double packets) const {
    if (p <= 1e-15) return 1 / packets;
    return p / std::expm1(-packets * log);
  }
  // Chance of a mark among `packets`.
  double marked(double packets) const { return packets <= 0 ? 0 : -std::expm1(packets * log); }
};

DcqcnFixedPoint dcqcn_fixed_point(const DcqcnParameters& of, Bandwidth port, int flows) {
  const double rate = packets_per_second(of, port) / flows;
  const double cut_s = of.cut_interval_us * 1e-6,
               additive = of.additive_mbps * 1e6 / 8 / of.packet_bytes;
  const auto alpha = [&](double p) {
    return -std::expm1(of.alpha_interval_us * 1e-6 * rate * std::log1p(-p));
  };
  // The change of the target and of the rate are both zero where this is.
  const auto excess = [&](double p) {
    const double log = std::log1p(-p), packets = of.increase_bytes / of.packet_bytes;
    const double timed = of.increase_interval_us * 1e-6 * rate;
    const double cut = -std::expm1(cut_s * rate * log);
    const double b = p / std::expm1(-packets * log), d = p / std::expm1(-timed * log);
    const double c = b * std::exp(of.recovery_steps * packets * log);
    const double e = d * std::exp(of.recovery_steps * timed * log);
    return cut * cut * alpha(p) - cut_s * cut_s * additive * rate * (b + d) * (c + e);
  };
  double low = 1e-12, high = 1 - 1e-12;
  for (int i = 0; i < 200; ++i) {
    const double middle = std::sqrt(low * high);
    (excess(middle) > 0 ? high : low) = middle;
  }
  const double queue = of.k_min_bytes + low / of.p_max * (of.k_max_bytes - of.k_min_bytes);
  return {low, alpha(low), std::min(queue, of.k_max_bytes)};
}

DcqcnFluid::DcqcnFluid(const DcqcnParameters& parameters, Bandwidth port, Time delay)
    : parameters_(parameters),
      port_(packets_per_second(parameters, port)),
      delay_steps_(static_cast<std::size_t>(std::max<std::int64_t>(1, delay.value / kStep.value))),
      marks_(delay_steps_, 0.0) {}

std::int32_t DcqcnFluid::add(Bandwidth rate) {
  Flow flow;
  flow.target = flow.current = packets_per_second(parameters_, rate);
  flow.past.assign(delay_steps_, 0.0);
  flows_.push_back(std::move(flow));
  return static_cast<std::int32_t>(flows_.size()) - 1;
}

void DcqcnFluid::remove(std::int32_t flow) {
  flows_[flow].sends = false;
  flows_[flow].current = flows_[flow].target = 0;
}

Bandwidth DcqcnFluid::rate(std::int32_t flow) const {
  return {flows_[flow].current * parameters_.packet_bytes};
}

double DcqcnFluid::mark_probability() const { return parameters_.mark_probability(queue_bytes()); }

void DcqcnFluid::advance(Time span) {
  for (const Time end = now_ + span; now_ < end; now_ += kStep) step();
}

// What marks do to a flow, per second.
struct DcqcnFluid::Response {
  double rises, late_rises, cuts, alpha_marked;  // late: past fast recovery
};

DcqcnFluid::Response DcqcnFluid::response(double rate, const Marking& marking) const {
  const DcqcnParameters& of = parameters_;
  const double timed = of.increase_interval_us * 1e-6 * rate;
  const double by_timer = timed > 0 ? marking.without_mark(timed) : 0;
  const double by_timer_late =
      timed > 0 ? by_timer * std::exp(of.recovery_steps * timed * marking.log) : 0;
  return {rate * (marking.by_bytes + by_timer), rate * (marking.by_bytes_late + by_timer_late),
          marking.marked(of.cut_interval_us * 1e-6 * rate) / (of.cut_interval_us * 1e-6),
          marking.marked(of.alpha_interval_us * 1e-6 * rate)};
}

void DcqcnFluid::step() {
  const Marking marking(parameters_, marks_[at_]);
  marks_[at_] = mark_probability();
  double arriving = 0, rate_before = -1;
  Response response{};
  for (Flow& flow : flows_) {
    if (!flow.sends) continue;
    arriving += flow.current;
    const double delayed_rate = std::exchange(flow.past[at_], flow.current);
    // Flows that are alike, as most are, need it once.
    if (delayed_rate != rate_before) response = this->response(delayed_rate, marking);
    rate_before = delayed_rate;
    react(flow, response);
  }
  queue_ = std::max(0.0, queue_ + (arriving - port_) * kStepSeconds);
  at_ = (at_ + 1) % delay_steps_;
}

void DcqcnFluid::react(Flow& flow, const Response& to) const {
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
