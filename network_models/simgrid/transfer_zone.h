#pragma once
#include <simgrid/kernel/routing/NetPoint.hpp>
#include <simgrid/kernel/routing/NetZoneImpl.hpp>
#include <simgrid/s4u.hpp>
#include <string>
#include <utility>
#include <vector>

namespace trainyard {

// Two hosts and the links of a fabric. Every route is the one that was set last.
class TransferZone : public simgrid::kernel::routing::NetZoneImpl {
 public:
  explicit TransferZone(const std::string& name) : NetZoneImpl(name) {}
  void set_route(std::vector<simgrid::s4u::Link*> route) { route_ = std::move(route); }
  void get_local_route(const simgrid::kernel::routing::NetPoint*,
                       const simgrid::kernel::routing::NetPoint*,
                       simgrid::kernel::routing::Route* into, double*) override;

 private:
  std::vector<simgrid::s4u::Link*> route_;
};

// An engine that shares links max-min fairly and returns from run_until() after the moment in which
// a communication ends; those that do enter the set that track_vetoed_activities() was given.
// Throws ConfigError if the process has one already.
simgrid::s4u::Engine* start_simgrid();

}  // namespace trainyard
