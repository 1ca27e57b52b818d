#include "simulator/link_events.h"

#include <algorithm>

#include "network_models/fabric/fabric.h"

namespace trainyard {
namespace {

using Kind = Fault::Kind;

std::vector<LinkId> links_of(const Fault& fault, const Fabric& fabric) {
  switch (fault.kind) {
    case Kind::flap:
      return fabric.cable(fabric.named(fault.part));
    case Kind::switch_down:
      return fabric.cables_of_switch(fault.part);
    case Kind::nic_down:
      return fabric.cable_of_card(fault.node, fault.nic);
    default:
      return {fabric.named(fault.part)};
  }
}

// Down from `at` for `lasts`; switches know `converge` later, if it still is.
void add_outage(LinkId link, Time at, Time lasts, Time converge, std::vector<LinkEvent>& events) {
  const bool returns = lasts < kNever - at;
  const bool noticed = !returns || converge < lasts;
  events.push_back({at, link, 0.0});
  if (noticed && converge < kNever - at) events.push_back({at + converge, link, {}, {}, true});
  if (!returns) return;
  events.push_back({at + lasts, link, 1.0});
  if (noticed) events.push_back({at + lasts, link, {}, {}, false});
}

void add_fault(const Fault& fault, LinkId link, std::vector<LinkEvent>& events) {
  const bool returns = fault.lasts < kNever - fault.at;
  if (fault.kind == Kind::link_slow) {
    events.push_back({fault.at, link, 1 / fault.factor});
    if (returns) events.push_back({fault.at + fault.lasts, link, 1.0});
  } else if (fault.kind == Kind::loss) {
    events.push_back({fault.at, link, {}, fault.rate});
    if (returns) events.push_back({fault.at + fault.lasts, link, {}, 0.0});
  } else if (fault.kind == Kind::flap) {
    Time at = fault.at;
    for (std::int32_t cycle = 0; cycle < fault.cycles; ++cycle, at += fault.down + fault.up)
      add_outage(link, at, fault.down, fault.converge, events);
  } else {
    add_outage(link, fault.at, fault.lasts, fault.converge, events);
  }
}

}  // namespace

std::vector<LinkEvent> link_events(const Job& job) {
  const Fabric fabric(job.cluster);
  std::vector<LinkEvent> events;
  for (const Fault& fault : job.faults) {
    if (!fault.of_fabric()) continue;
    for (const LinkId link : links_of(fault, fabric)) add_fault(fault, link, events);
  }
  std::ranges::stable_sort(events, {}, &LinkEvent::at);
  return events;
}

void happen(const LinkEvent& event, NetworkModel& network) {
  if (event.fraction) network.set_capacity(event.link, *event.fraction, event.at);
  if (event.loss) network.set_loss(event.link, *event.loss, event.at);
  if (event.known_down) network.route_around(event.link, *event.known_down, event.at);
}

}  // namespace trainyard
