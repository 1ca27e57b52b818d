#pragma once
#include <map>
#include <set>
#include <utility>

#include "core/config/job.h"
#include "network_models/network_model.h"
#include "network_models/topology.h"

namespace trainyard {

// Models `ideal` and `analytic`: a flow takes latency + bytes / rate whatever others do, its rate
// being its share of the node's NICs, with `collisions` times what an average flow keeps after
// ECMP. Inside a node it has NVLink (or PCIe) to itself.
class ClosedFormModel : public NetworkModel {
 public:
  ClosedFormModel(const Cluster& cluster, const Network& network, const Placement& placement,
                  bool collisions);

  std::optional<Time> closed_form(const Flow& flow) const override;
  FlowId start(const Flow& flow, Time now) override { return start_in_step({&flow, 1}, now); }
  FlowId start_in_step(std::span<const Flow> flows, Time now) override;
  void cancel(FlowId flow, Time now) override;
  // These throw ConfigError: a closed form has no links.
  void set_capacity(LinkId link, double fraction, Time now) override;
  void route_around(LinkId link, bool down, Time now) override;
  LinkId link(std::string_view name) const override;
  Time advance(Time limit, std::vector<FlowEnd>& ended) override;

 private:
  Topology topology_;
  Placement placement_;
  std::int64_t qps_;  // 0: no collisions
  std::int64_t started_ = 0;
  std::map<FlowId, Time> ends_;
  std::set<std::pair<Time, FlowId>> by_end_;
};

}  // namespace trainyard
