#include "simulator/executor.h"

#include <algorithm>

#include "simulator/workers.h"

namespace trainyard {

Executor::Executor(const Scene& scene, int threads)
    : scene_(scene), threads_(threads), crossings_(scene) {
  for (std::int32_t i = 0; i < scene.layout.islands(); ++i)
    islands_.push_back(std::make_unique<Island>(scene, i));
}

void Executor::run() {
  Workers workers(std::min(threads_, scene_.layout.islands()));
  for (bool going = true; going;) {
    workers.each(islands_.size(), [this](std::size_t i) { islands_[i]->run(crossings_); });
    going = false;
    for (const auto& island : islands_)
      for (const Island::Arrival& arrival : island->take_arrivals())
        if (crossings_.arrive(*arrival.op, arrival.stage, island->index(), island->ready(arrival)))
          going = true;
  }
}

bool Executor::finished() const {
  return std::ranges::all_of(islands_, [](const auto& island) { return island->finished(); });
}

}  // namespace trainyard
