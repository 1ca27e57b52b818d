#include "network_models/collisions.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "core/error.h"

namespace trainyard {
namespace {

// So many parts a link that their loads hardly differ (by 1 / sqrt(load)).
constexpr double kEvenLoad = 500;

// Loads of `links` links, `parts` balls thrown at them, taken one load after the other.
class LargestLoad {
 public:
  LargestLoad(double parts, double links)
      : parts_(parts),
        links_(links),
        chance_(std::exp(-parts / links)),
        up_to_(chance_),
        // log of 1 / P(Poisson(parts) = parts)
        given_sum_(std::lgamma(parts + 1) - parts * std::log(parts) + parts) {}

  // P(largest load <= x) for the next x = 1, 2, …: independent Poisson loads, each at most x,
  // given that they add up to `parts`; the sum of the truncated loads is taken as normal
  // (Levin, Annals of Statistics 9(5), 1981).
  double next() {
    chance_ *= parts_ / links_ / ++load_;
    up_to_ += chance_;
    first_ += load_ * chance_;
    second_ += load_ * load_ * chance_;
    if (load_ * links_ < parts_) return 0;
    const double mean = first_ / up_to_, variance = second_ / up_to_ - mean * mean;
    const double off = parts_ - links_ * mean;
    const double log_density = -0.5 * off * off / (links_ * variance) -
                               0.5 * std::log(2 * std::numbers::pi * links_ * variance);
    return std::min(1.0, std::exp(given_sum_ + links_ * std::log(up_to_) + log_density));
  }

 private:
  double parts_, links_;
  double load_ = 0, chance_;               // P(Poisson load = load_)
  double up_to_, first_ = 0, second_ = 0;  // its sum and moments up to load_
  double given_sum_;
};

}  // namespace

ExpectedRate expected_rate(const EcmpStage& stage) {
  check(stage.flows >= 1 && stage.links >= 1 && stage.qps >= 1 && stage.stages >= 1,
        "an ECMP stage needs flows and links");
  const auto parts = static_cast<double>(stage.flows * stage.qps);
  const auto links = static_cast<double>(stage.links), stages = static_cast<double>(stage.stages);
  const double fits = stage.capacity * static_cast<double>(stage.qps);
  const auto rate = [fits](double load) { return std::min(1.0, fits / load); };
  if (stage.links == 1 || parts == 1) return {rate(parts), rate(parts)};
  if (parts / links > kEvenLoad) return {rate(parts / links), rate(parts / links)};

  // A part sees 1 + Binomial(parts - 1, 1 / links).
  double others = std::pow(1 - 1 / links, parts - 1), mean = others * rate(1);
  for (double x = 1; x < parts; ++x) {
    others *= (parts - x) / x / (links - 1);
    mean += others * rate(x + 1);
  }
  LargestLoad largest(parts, links);
  double slowest = 0, below = 0;
  for (double x = 1; x <= parts && below < 1 - 1e-12; ++x) {
    const double now = std::max(below, std::pow(largest.next(), stages));
    slowest += (now - below) * rate(x);
    below = now;
  }
  return {std::pow(std::min(1.0, mean), stages), std::min(1.0, slowest / below)};
}

}  // namespace trainyard
