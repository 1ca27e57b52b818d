#include "network_models/closed_form.h"

#include <algorithm>

#include "core/error.h"

namespace trainyard {
namespace {

[[noreturn]] void refuse_links() {
  throw ConfigError("a network model in closed form has no links that could slow down or fail");
}

}  // namespace

ClosedFormModel::ClosedFormModel(const Cluster& cluster, const Network& network,
                                 const Placement& placement, bool collisions)
    : topology_(cluster),
      placement_(placement),
      qps_(collisions ? network.qps_per_connection : 0) {}

std::optional<Time> ClosedFormModel::closed_form(const Flow& flow) const {
  const Tier tier = topology_.tier(placement_.node(flow.source), placement_.node(flow.target));
  return topology_.message(flow.bytes, tier, flow.concurrent, qps_);
}

FlowId ClosedFormModel::start_in_step(std::span<const Flow> flows, Time now) {
  const FlowId id{started_++};
  Time end = now;
  for (const Flow& flow : flows) end = std::max(end, now + *closed_form(flow));
  ends_[id] = end;
  by_end_.emplace(end, id);
  return id;
}

void ClosedFormModel::cancel(FlowId flow, Time /*now*/) {
  const auto found = ends_.find(flow);
  check(found != ends_.end(), "flow {} is not in flight", index(flow));
  by_end_.erase({found->second, flow});
  ends_.erase(found);
}

void ClosedFormModel::set_capacity(LinkId, double, Time) { refuse_links(); }

void ClosedFormModel::route_around(LinkId, bool, Time) { refuse_links(); }

LinkId ClosedFormModel::link(std::string_view) const { refuse_links(); }

Time ClosedFormModel::advance(Time limit, std::vector<FlowEnd>& ended) {
  if (by_end_.empty() || by_end_.begin()->first > limit) return limit;
  const Time reached = by_end_.begin()->first;
  while (!by_end_.empty() && by_end_.begin()->first == reached) {
    const FlowId flow = by_end_.begin()->second;
    ended.push_back({flow, reached});
    by_end_.erase(by_end_.begin());
    ends_.erase(flow);
  }
  return reached;
}

}  // namespace trainyard
