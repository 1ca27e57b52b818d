#include "simulator/executor.h"

#include <algorithm>

#include "simulator/workers.h"

namespace trainyard {

Executor::Executor(const Job& job, const Scene& scene, const Costs& costs, int threads)
    : scene_(scene), threads_(threads), crossings_(scene), transfer_ends_(scene) {
  if (scene.flows.any()) traffic_.emplace(job, scene, costs);
  for (std::int32_t i = 0; i < scene.layout.islands(); ++i) {
    islands_.push_back(std::make_unique<Island>(scene, i, transfer_ends_));
    awake_.push_back(i);
  }
  is_awake_.resize(islands_.size(), true);
}

void Executor::wake(std::int32_t island) {
  if (is_awake_[static_cast<std::size_t>(island)]) return;
  is_awake_[static_cast<std::size_t>(island)] = true;
  awake_.push_back(island);
}

// The islands that `island` shares sequences with, itself among them.
void Executor::wake_sharing(std::int32_t island) {
  const Layout& layout = scene_.layout;
  while (island > 0 && layout.share(island - 1, island)) --island;
  for (std::int32_t i = island; i < layout.islands() && layout.share(i, island); ++i) wake(i);
}

void Executor::run() {
  Workers workers(std::min(threads_, scene_.layout.islands()));
  while (!awake_.empty()) {
    workers.each(awake_.size(), [this](std::size_t i) {
      islands_[static_cast<std::size_t>(awake_[i])]->run(crossings_);
    });
    const bool all = meet();
    awake_.clear();
    is_awake_.assign(islands_.size(), false);
    if (all)
      for (std::int32_t i = 0; i < scene_.layout.islands(); ++i) wake(i);
    for (const std::int32_t i : met_) wake_sharing(i);
    met_.clear();
    if (awake_.empty() && traffic_) land();
  }
}

// Enters what the islands that ran have reached; true if a crossing of all islands has ended.
bool Executor::meet() {
  bool ended = false;
  std::ranges::sort(awake_);
  for (const std::int32_t i : awake_) {
    Island& island = *islands_[static_cast<std::size_t>(i)];
    for (const Island::Arrival& arrival : island.take_arrivals()) {
      const SharedOp& op = *arrival.op;
      if (!crossings_.arrive(op, arrival.stage, i, island.ready(arrival))) continue;
      const std::uint32_t id = crossings_.id(op, arrival.stage, i);
      if (crossings_.travels(op, arrival.stage, i))
        traffic_->add_collective({&op, id, arrival.stage, i}, crossings_.latest(id));
      else if (op.group == Group::context)
        met_.push_back(i);
      else
        ended = true;
    }
    if (!traffic_) continue;
    for (const Departure& departure : island.take_departures()) traffic_->add(departure);
  }
  return ended;
}

// The next flows end; their islands go on.
void Executor::land() {
  while (awake_.empty()) {
    landed_.clear();
    if (!traffic_->advance(landed_)) return;
    for (const Landing& landing : landed_) {
      if (landing.crossing == kNone) {
        const std::int32_t island = landing.departure.island;
        if (islands_[static_cast<std::size_t>(island)]->land(landing.departure, landing.at))
          wake(island);
      } else if (!crossings_.land(*landing.departure.collective, landing.crossing,
                                  landing.departure.lane, landing.at)) {
        continue;
      } else if (crossings_.inside_an_island(landing.crossing)) {
        wake(landing.departure.island);
      } else {
        for (std::int32_t i = 0; i < scene_.layout.islands(); ++i) wake(i);
      }
    }
  }
}

bool Executor::finished() const {
  return std::ranges::all_of(islands_, [](const auto& island) { return island->finished(); });
}

}  // namespace trainyard
