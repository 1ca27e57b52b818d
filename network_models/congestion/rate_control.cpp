#include "network_models/congestion/rate_control.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string>

#include "core/error.h"

namespace trainyard {
namespace {

constexpr std::array<std::string_view, 5> kNames{"ideal", "none", "dcqcn", "swift", "hybrid"};

}  // namespace

Control control_named(std::string_view name) {
  const auto* const found = std::ranges::find(kNames, name);
  if (found == kNames.end())
    throw ConfigError(
        fmt::format("unknown congestion control '{}'; valid: {}", name, fmt::join(kNames, ", ")));
  return static_cast<Control>(found - kNames.begin());
}

ControlParameters control_parameters(const Cluster& cluster, const Network& network) {
  ControlParameters out;
  out.control = control_named(network.congestion_control);
  out.dcqcn = dcqcn_parameters(network.dcqcn_parameters, cluster.node.nic);
  return out;
}

double SwiftParameters::target_of(double window_packets) const {
  const double most = range * target_us;
  const double alpha = most / (1 / std::sqrt(least_window) - 1 / std::sqrt(window));
  const double beta_us = -alpha / std::sqrt(window);
  return target_us + std::clamp(alpha / std::sqrt(window_packets) + beta_us, 0.0, most);
}

RateControl::RateControl(const ControlParameters& parameters, Bandwidth line, Time start)
    : of_(&parameters), card_(parameters.dcqcn, line, start), rate_(line.value) {}

bool RateControl::notify(Time now) {
  if (!of_->marks()) return false;
  const double alpha = card_.alpha(now);
  if (!card_.notify(now)) return false;
  if (of_->delays() && round_trip_s_ > 0) set_window(window_ * (1 - alpha / 2));
  return true;
}

bool RateControl::sample(const DelaySample& sample) {
  if (!of_->delays()) return false;
  const SwiftParameters& swift = of_->swift;
  const double before = rate_;
  if (round_trip_s_ == 0) window_ = rate_ * sample.round_trip_us * 1e-6;
  round_trip_s_ = sample.round_trip_us * 1e-6;
  const double target_us = swift.target_of(window_ / swift.packet_bytes);
  if (sample.queueing_us < target_us) {
    const double rounds = sample.bytes / std::max(window_, swift.packet_bytes);
    window_ += rounds * swift.packet_bytes;
  } else if (to_microseconds(sample.now - cut_at_) >= sample.round_trip_us) {
    const double excess = (sample.queueing_us - target_us) / sample.round_trip_us;
    window_ *= std::max(1 - swift.beta * excess, 1 - swift.most_cut);
    cut_at_ = sample.now;
  }
  set_window(window_);
  return rate_ != before;
}

void RateControl::set_window(double bytes) {
  const double line_window = line() * round_trip_s_;
  window_ = std::clamp(bytes, 1e-3 * line_window, line_window);
  rate_ = window_ / round_trip_s_;
}

}  // namespace trainyard
