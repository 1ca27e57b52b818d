#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "network_models/fabric/fabric.h"
#include "network_models/fabric/router.h"
#include "network_models/flow/bundle_clock.h"
#include "network_models/flow/due_queue.h"
#include "network_models/flow/dynamics.h"
#include "network_models/flow/max_min.h"
#include "network_models/flow/transport.h"
#include "network_models/network_model.h"

namespace trainyard {

// Model `flow`: every flow takes the path that ECMP gives it, and flows share the links of the
// fabric max-min fairly. A flow of several queue pairs has as many paths, each with an equal share
// of the bytes; it moves at the pace of the slowest. It ends when its last byte arrives: a path's
// latency after it was sent. A flow over a dead link stops until its sender finds a path that works
// (see Transport), or gives up.
class FlowModel : public NetworkModel {
 public:
  // `seed` draws queue pair numbers, hence paths.
  FlowModel(const Cluster& cluster, const Network& network, const Placement& placement,
            std::uint64_t seed);

  std::optional<Time> closed_form(const Flow&) const override { return std::nullopt; }
  FlowId start(const Flow& flow, Time now) override { return start_in_step({&flow, 1}, now); }
  FlowId start_in_step(std::span<const Flow> flows, Time now) override;
  void cancel(FlowId flow, Time now) override;
  void set_capacity(LinkId link, double fraction, Time now) override;
  Time advance(Time limit, std::vector<FlowEnd>& ended) override;
  void set_loss(LinkId link, double part, Time now) override;
  std::optional<NetworkFailure> failure() const override { return failure_; }
  std::optional<NetworkUse> use(Time whole) const override;
  void route_around(LinkId link, bool down, Time now) override;
  LinkId link(std::string_view name) const override { return fabric_.named(name); }

  const Fabric& fabric() const { return fabric_; }
  const Router& router() const { return router_; }
  // Bytes per second of a flow that is being sent, of each where several move in step.
  Bandwidth rate(FlowId flow);
  // Why nothing of it moves; empty if something does.
  const std::string& obstacle(FlowId flow) const { return transfers_[slot(flow)].obstacle; }
  // The link that keeps it from being faster: where it waits, or the narrowest of its path.
  LinkId bottleneck(FlowId flow);
  // Bytes per second that cross a link.
  Bandwidth load(LinkId link);
  // Queue pairs that cross a link now.
  double queue_pairs(LinkId link) const;
  // What congestion control does; null where it is ideal.
  const Dynamics* dynamics() const { return dynamics_.get(); }
  std::int64_t solved_flows() const { return solved_; }  // rates that changed, all in all

 private:
  struct Transfer {
    FlowId id{-1};
    std::vector<Flow> flows;  // in step; empty once all bytes are sent
    std::int32_t flow = -1;   // in rates_; -1: all bytes are sent
    std::int32_t clock = -1;  // the bundle whose clock it goes by, by link
    double end = 0;           // what that clock shows when all bytes are sent
    double left = 0;          // bytes of one queue pair
    double size = 0, rate = 0;
    double turns = 1;  // the most of its flows that one card sends or receives
    Time started, since, latency;
    std::int64_t order = 0;
    double loss = 0;             // chance that a last packet of it is lost
    Time lost = kNever, window;  // nothing arrives since then; so long the sender does not mind
    std::string obstacle;        // why, while lost
  };

  std::int32_t slot(FlowId flow) const;
  void go_to(Time now);
  void settle();
  void set_end(std::int32_t flow);
  void set_due(std::int32_t slot, double left, double rate);
  void count_carried(const Transfer& transfer, double sign);
  void count_sent(Transfer& transfer) const;
  // In flow_bundles.cpp.
  double rate_of(const Transfer& transfer) const;
  void leave_clock(std::int32_t slot);
  void join_clock(std::int32_t slot, std::int32_t link);
  void set_first_end(BundleClock& clock);
  void move_bundles();

  void finish_sending(std::int32_t slot);
  void release(std::int32_t slot);
  void send(std::int32_t slot);
  void forget(std::int32_t flow);
  Path path(const Flow& flow, std::uint32_t number) const;
  LinkId bottleneck_of(std::int32_t flow) const;
  Time next() const;
  bool react();
  double left(std::int32_t flow) const;
  void upstream(std::int32_t flow, std::int32_t link, std::vector<std::int32_t>& out) const;
  bool find_paths(Transfer& transfer);
  void take_off(std::int32_t slot);
  void happen(std::int32_t slot);
  std::vector<std::int32_t> crossing(LinkId link) const;
  double card_rate() const;
  double turns_of_a_card() const;
  void count_pace(const Transfer& transfer, LinkId held);

  // In flow_outage.cpp.
  bool set_dead(LinkId link, bool dead);  // whether it was alive
  bool works(const Path& path) const;
  double arrives(const Path& path) const;
  void lose(std::int32_t slot);
  void lose_all_over(LinkId link);
  void look_for_paths();
  void look_for_path(std::int32_t slot);
  void retry(std::int32_t slot);
  void count_stall(Time wait);
  void give_up(const Transfer& transfer);
  std::string obstacle(const Transfer& transfer) const;

  Fabric fabric_;
  Router router_;
  Placement placement_;
  std::uint32_t queue_pairs_;
  MaxMin rates_;
  std::unique_ptr<Dynamics> dynamics_;
  DueQueue due_;
  std::unordered_map<std::int32_t, BundleClock> clocks_;  // of bundles, by link
  std::vector<Transfer> transfers_;
  std::vector<std::int32_t> free_, slot_of_flow_;  // by number in rates_
  std::vector<MaxMin::Use> uses_;                  // what find_paths() has found
  Time now_;
  std::int64_t started_ = 0, solved_ = 0;
  double slowest_ = 1;  // of a card's rate
  LinkId slowest_link_{-1};
  std::vector<double> carried_;  // bytes, by link

  Transport transport_;
  std::vector<bool> dead_;          // links; empty: none ever was
  std::vector<double> loss_;        // of packets, by link; empty: none ever was
  std::vector<std::int32_t> lost_;  // slots of transfers over dead links
  std::int64_t stalls_ = 0;
  Time longest_stall_;
  std::optional<NetworkFailure> failure_;
};

}  // namespace trainyard
