#pragma once
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "network_models/fabric/fabric.h"
#include "network_models/fabric/router.h"
#include "network_models/flow/transport.h"
#include "network_models/network_model.h"
#include "network_models/packet/hosts.h"
#include "network_models/packet/ports.h"

namespace trainyard {

// Model `packet`: every packet of every flow over its ECMP path, through queues, marks and pauses.
// The yardstick of `flow`, for small clusters. Flows in step start together and end when the last
// of them does; each goes at its own pace.
class PacketModel : public NetworkModel {
 public:
  static constexpr std::int32_t kMostGpus = 512;

  // Throws ConfigError for larger clusters and for `ideal` congestion control.
  PacketModel(const Cluster& cluster, const Network& network, const Placement& placement,
              std::uint64_t seed);

  std::optional<Time> closed_form(const Flow&) const override { return std::nullopt; }
  FlowId start(const Flow& flow, Time now) override { return start_in_step({&flow, 1}, now); }
  FlowId start_in_step(std::span<const Flow> flows, Time now) override;
  void cancel(FlowId flow, Time now) override;
  void set_capacity(LinkId link, double fraction, Time now) override;
  void route_around(LinkId link, bool down, Time now) override;
  LinkId link(std::string_view name) const override { return fabric_.named(name); }
  Time advance(Time limit, std::vector<FlowEnd>& ended) override;
  std::optional<NetworkFailure> failure() const override { return failure_; }
  std::optional<NetworkUse> use(Time whole) const override;

  const Fabric& fabric() const { return fabric_; }
  const Ports& ports() const { return ports_; }
  const Hosts& hosts() const { return hosts_; }
  // Its queue pairs, by their numbers at the hosts.
  std::span<const std::int32_t> queue_pairs(FlowId flow) const;

 private:
  struct Transfer {
    std::vector<Flow> flows;
    std::vector<std::int32_t> pairs;
    std::int32_t open = 0;  // queue pairs whose last byte has yet to arrive
    double bytes = 0;       // of one flow
    Time started, latency;
  };

  QueuePair ends(const Transfer& transfer, std::size_t pair) const;
  void go_to(Time now);
  void run_until(std::int64_t ps);
  void end_finished();
  void give_up(std::int32_t pair);

  Fabric fabric_;
  Router router_;
  Placement placement_;
  std::uint32_t queue_pairs_;
  Transport transport_;
  double packet_bytes_;
  Ports ports_;
  Hosts hosts_;
  std::unordered_map<std::int64_t, Transfer> transfers_;
  std::vector<std::int64_t> flow_of_;  // of each queue pair
  std::vector<FlowEnd> ended_;         // not yet told
  Time now_;
  std::int64_t started_ = 0;
  double slowest_ = 1;
  std::optional<NetworkFailure> failure_;
};

}  // namespace trainyard
