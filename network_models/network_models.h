#pragma once
#include <memory>
#include <span>
#include <string_view>

#include "core/config/job.h"
#include "network_models/network_model.h"

namespace trainyard {

struct NetworkModelInfo {
  std::string_view name, summary;
  bool collisions;  // closed forms charge the collisions ECMP is expected to have
  bool contention;  // flows meet: there is no closed form
  std::unique_ptr<NetworkModel> (*make)(const NetworkModelInfo& self, const Job& job);
};

// Every network model there is.
std::span<const NetworkModelInfo> network_models();

// The entry called `name`; ConfigError with the valid names if there is none, and with a line
// about each if `name` is "help".
const NetworkModelInfo& network_model_info(std::string_view name);

// The model of the job's cluster and placement that its network asks for.
std::unique_ptr<NetworkModel> make_network_model(const Job& job);

}  // namespace trainyard
