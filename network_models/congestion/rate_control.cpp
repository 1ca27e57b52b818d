#include "network_models/congestion/rate_control.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
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

RateControl::RateControl(const ControlParameters& parameters, Bandwidth line, Time start)
    : of_(&parameters), card_(parameters.dcqcn, line, start), rate_(line.value) {}

bool RateControl::notify(Time now) {
  if (!of_->marks()) return false;
  const double alpha = card_.alpha(now);
  if (!card_.notify(now)) return false;
  if (of_->delays()) rate_ = std::max(1e-3 * line(), rate_ * (1 - alpha / 2));
  return true;
}

bool RateControl::sample(const DelaySample& sample) {
  if (!of_->delays()) return false;
  const SwiftParameters& swift = of_->swift;
  const double round_trip_s = sample.round_trip_us * 1e-6;
  if (sample.queueing_us < swift.target_us) {
    if (rate_ >= line()) return false;
    const double rounds = sample.bytes / (rate_ * round_trip_s);
    rate_ = std::min(line(), rate_ + rounds * swift.packet_bytes / round_trip_s);
    return true;
  }
  if (to_microseconds(sample.now - cut_at_) < sample.round_trip_us) return false;
  const double excess = (sample.queueing_us - swift.target_us) / sample.round_trip_us;
  rate_ *= std::max(1 - swift.beta * excess, 1 - swift.most_cut);
  rate_ = std::max(1e-3 * line(), rate_);
  cut_at_ = sample.now;
  return true;
}

}  // namespace trainyard
