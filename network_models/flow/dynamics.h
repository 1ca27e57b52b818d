#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "core/random.h"
#include "network_models/congestion/rate_control.h"
#include "network_models/congestion/switch_buffers.h"
#include "network_models/fabric/fabric.h"
#include "network_models/flow/due_queue.h"
#include "network_models/flow/max_min.h"

namespace trainyard {

// What congestion control does to the flows of the solver: it sets their limits. Each flow has the
// rate that its card's state machine allows, from line rate on; where the flows of a link together
// send more than it carries, a queue grows there and they share the link in proportion to what they
// send. The queue marks them, cards react a feedback later; a queue that is left keeps the link
// busy until it is empty. Where it is as long as the buffer allows, the link's upstream ports are
// paused, and flows that only pass these (the victims) slow down alike.
//
// Only links where a queue is cost anything, and flows below line rate.
class Dynamics {
 public:
  // Links that a flow crosses before `link`, appended.
  using Upstream =
      std::function<void(std::int32_t flow, std::int32_t link, std::vector<std::int32_t>& out)>;

  Dynamics(const Fabric& fabric, MaxMin& rates, const ControlParameters& control,
           const SwitchBuffers& buffers, std::uint64_t seed);
  void set_upstream(Upstream upstream) { upstream_ = std::move(upstream); }

  // A flow that the solver has just been given, `latency` long.
  void add(std::int32_t flow, Time latency, Time now);
  void remove(std::int32_t flow, Time now);
  // Hears of flows whose rates the solver has changed. True: it set limits, solve again.
  bool look(std::span<const std::int32_t> changed, Time now);

  // When it has to act next; kNever if it has not.
  Time due() const;
  // Sets new limits; the solver has to be asked again.
  void act(Time now);

  double queue_bytes(std::int32_t link, Time now) const;
  const RateControl& control(std::int32_t flow) const { return machines_[flow]->control; }
  bool paused(std::int32_t link) const;  // whether its upstream ports are
  std::int64_t events() const { return events_; }

 private:
  struct Machine {
    RateControl control;
    Time latency, heard;
    double limit = 0;
    double debt = 0, threshold = 1;  // marks: expected so far, and at which one comes
    std::uint32_t draws = 0;
    std::vector<std::int32_t> queues;  // links with a queue that hold it up
  };
  struct Queue {
    double bytes = 0, arriving = 0, most = 0;  // per second; most: where pauses begin
    double share = 1;                          // of what arrives that goes through
    Time since;
    bool pausing = false;
    std::unordered_map<std::int32_t, double> caps;  // while it pauses: rates of members and victims
  };
  struct Member {
    std::int32_t flow;
    double weight;
  };

  bool follows(std::int32_t flow) const;
  bool has_queue(std::int32_t link) const;
  void open(std::int32_t link, Time now);
  void close(std::int32_t link, Time now);
  void members(std::int32_t link);
  void tick(std::int32_t link, Time now);
  void signal(std::int32_t link, const Queue& queue, Time now);
  void mark(Machine& machine, double per_second, Time now, Time span);
  void refresh(std::int32_t link, Time now);
  Time next_tick(std::int32_t link, const Queue& queue) const;
  double arriving(std::int32_t flow, std::int32_t link) const;
  double let_through(const Queue& queue, std::int32_t flow, double sends) const;
  void share_by_ports(std::int32_t link, Queue& queue);
  void hold_victims(std::int32_t link, Queue& queue);
  void resume(std::int32_t link, Queue& queue);
  void hold(std::int32_t flow, std::int32_t link);
  void let_go(std::int32_t flow, std::int32_t link);
  void set_limit(std::int32_t flow);
  void rise(std::int32_t flow, Time now);
  void schedule_rise(std::int32_t flow, Time now);
  double round_trip_us(const Machine& machine, double queueing_us) const;

  const Fabric& fabric_;
  MaxMin& rates_;
  ControlParameters control_;
  SwitchBuffers buffers_;
  PhiloxKey draws_;
  Upstream upstream_;
  std::vector<std::optional<Machine>> machines_;  // by number in rates_
  std::unordered_map<std::int32_t, Queue> queues_;
  std::vector<Queue*> queue_of_;  // by link; null: none
  DueQueue ticks_, rises_;        // by link, by flow
  std::vector<Member> members_;
  std::int64_t events_ = 0;
};

}  // namespace trainyard
