#include "network_models/congestion/dcqcn.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <string>

#include "core/error.h"

namespace trainyard {
namespace {

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

double DcqcnParameters::mark_probability(double queue_bytes, double deviation_bytes) const {
  if (deviation_bytes <= 0) return mark_probability(queue_bytes);
  // Chance to be beyond `mark`, and mean excess over it.
  const auto beyond = [&](double mark) {
    return 0.5 * std::erfc((mark - queue_bytes) / deviation_bytes * std::numbers::sqrt2 / 2);
  };
  const auto excess = [&](double mark) {
    const double z = (mark - queue_bytes) / deviation_bytes;
    return deviation_bytes * std::exp(-z * z / 2) * std::numbers::inv_sqrtpi / std::numbers::sqrt2 -
           (mark - queue_bytes) * beyond(mark);
  };
  const double line = (excess(k_min_bytes) - excess(k_max_bytes)) / (k_max_bytes - k_min_bytes);
  return std::clamp(p_max * line + (1 - p_max) * beyond(k_max_bytes), 0.0, 1.0);
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

}  // namespace trainyard
