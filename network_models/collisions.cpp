#include "network_models/collisions.h"

#include <algorithm>
#include <cmath>

#include "core/error.h"

namespace trainyard {

ExpectedRate expected_rate(const EcmpStage& stage) {
  check(stage.flows >= 1 && stage.links >= 1 && stage.qps >= 1 && stage.stages >= 1,
        "an ECMP stage needs flows and links");
  const auto parts = static_cast<double>(stage.flows * stage.qps);
  const double links = static_cast<double>(stage.links);
  const double fits = stage.capacity * static_cast<double>(stage.qps);
  const double throws = links * static_cast<double>(stage.stages);
  const auto rate = [fits](double load) { return std::min(1.0, fits / load); };
  if (stage.links == 1) return {rate(parts), rate(parts)};

  // Load of one link ~ Binomial(parts, 1 / links); a part sees 1 + the load of the others.
  const double odds = 1 / (links - 1);
  double of_link = std::pow(1 - 1 / links, parts);        // P(load = x), x = 0
  double of_others = std::pow(1 - 1 / links, parts - 1);  // P(others on my link = x), x = 0
  double up_to = of_link, mean = of_others * rate(1);
  double slowest = 0, below = std::pow(up_to, throws);
  for (double x = 1; x <= parts && below < 1 - 1e-12; ++x) {
    of_link *= (parts - x + 1) / x * odds;
    of_others *= (parts - x) / x * odds;
    up_to = std::min(1.0, up_to + of_link);
    const double now = std::pow(up_to, throws);
    slowest += (now - below) * rate(x);
    below = now;
    mean += of_others * rate(x + 1);
  }
  return {std::pow(std::min(1.0, mean), static_cast<double>(stage.stages)),
          std::min(1.0, slowest / below)};
}

}  // namespace trainyard
