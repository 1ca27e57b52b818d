#include "network_models/simgrid/transfer_zone.h"

#include <array>
#include <xbt/config.hpp>

#include "core/error.h"

namespace trainyard {

namespace s4u = simgrid::s4u;
namespace routing = simgrid::kernel::routing;

void TransferZone::get_local_route(const routing::NetPoint*, const routing::NetPoint*,
                                   routing::Route* into, double*) {
  for (const s4u::Link* link : route_) into->link_list_.push_back(link->get_impl());
}

simgrid::s4u::Engine* start_simgrid() {
  if (s4u::Engine::has_instance())
    throw ConfigError("network.model \"simgrid\": one simulation at a time");
  std::string name = "trainyard", quiet = "--log=root.thres:warning";
  std::array<char*, 2> arguments{name.data(), quiet.data()};
  int count = arguments.size();
  s4u::Engine* const engine = s4u::Engine::get_instance(&count, arguments.data());
  // What outlives an engine, and may be set once a process.
  if (!simgrid::config::is_default("network/model")) return engine;
  for (const char* setting :
       {"network/model:CM02", "network/crosstraffic:0", "network/latency-factor:1",
        "network/bandwidth-factor:1", "network/weight-S:0"})
    s4u::Engine::set_config(setting);
  // The engine returns from run_until() after the moment in which this set gets its first entry.
  s4u::Activity::on_completion_cb([](const s4u::Activity& activity) {
    s4u::Activity::get_vetoed_activities()->insert(const_cast<s4u::Activity*>(&activity));
  });
  return engine;
}

}  // namespace trainyard
