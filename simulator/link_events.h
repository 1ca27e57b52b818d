#pragma once
#include <optional>
#include <vector>

#include "core/config/job.h"
#include "network_models/network_model.h"

namespace trainyard {

// A link changes, or switches learn that it has.
struct LinkEvent {
  Time at;
  LinkId link{};
  std::optional<double> fraction{};  // of its rate from then on; 0: down
  std::optional<double> loss{};      // of its packets
  std::optional<bool> known_down{};  // switches go around it from then on, or no more
};

// What the job's faults do to links of its fabric, in the order of time. Throws ConfigError for a
// link or switch that is not there.
std::vector<LinkEvent> link_events(const Job& job);

void happen(const LinkEvent& event, NetworkModel& network);

}  // namespace trainyard
