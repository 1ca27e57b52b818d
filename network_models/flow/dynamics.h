#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/random.h"
#include "network_models/congestion/rate_control.h"
#include "network_models/congestion/switch_buffers.h"
#include "network_models/fabric/fabric.h"
#include "network_models/flow/due_queue.h"
#include "network_models/flow/layers.h"
#include "network_models/flow/max_min.h"

namespace trainyard {

// What congestion control does to the flows of the solver: it sets their limits. Each flow is sent
// at the rate that its card's state machine allows, from line rate on; where the flows of a link
// together send more than it carries, a queue grows there, which they leave in the order in which
// they came. The queue marks them, cards react a feedback later; a queue that is left keeps the
// link busy until it is empty. Where it is as long as the buffer allows, the link's upstream ports
// are paused, and flows that only pass these (the victims) slow down alike.
//
// Only links where a queue is cost anything, and flows below line rate.
class Dynamics {
 public:
  // Links that a flow crosses before `link`, appended.
  using Upstream =
      std::function<void(std::int32_t flow, std::int32_t link, std::vector<std::int32_t>& out)>;
  // Bytes of a flow, of one queue pair, that have not arrived.
  using Left = std::function<double(std::int32_t flow)>;

  Dynamics(const Fabric& fabric, MaxMin& rates, const ControlParameters& control,
           const SwitchBuffers& buffers, std::uint64_t seed);
  void set_flows(Upstream upstream, Left left) {
    upstream_ = std::move(upstream);
    left_ = std::move(left);
  }

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
  // The last queue that a flow waits in or for; -1: none.
  std::int32_t last_queue(std::int32_t flow) const;
  std::int64_t events() const { return events_; }

 private:
  // Rates that change by less than this part of line rate, and of themselves, are left as they are.
  static constexpr double kFine = 1.0 / 256, kCoarse = 0.05;

  static constexpr double kAlike = 1e-6;  // rates that differ by less are the same
  static constexpr double kEmpty = 1;     // byte: what is no more is nothing
  static constexpr double kThinUs = 4;    // what leaves a queue is looked at no more often

  // A flow at a queue. Rates are of one queue pair, bytes of the `weight` that cross the link.
  struct Held {
    std::int32_t link;
    double weight;                 // 0: a victim, which does not cross it
    double comes = 0;              // what it counts on to come a second
    double leaves = 0, bytes = 0;  // what of it leaves the queue a second, and is in it
  };
  struct Machine {
    RateControl control;
    Time latency, heard;
    double limit = 0;
    double debt = 0, threshold = 1;  // marks: expected so far, and at which one comes
    double packets = 1;              // since the last one
    std::uint32_t draws = 0, serial = 0;
    std::int32_t card = -1;  // the link that its card sends on; -1: several, in step
    bool all_sent = false;
    std::vector<Time> notifications;  // on their way
    std::vector<Held> queues;         // in the order of the path; those that pause it last
  };
  struct Queue {
    Layers layers;
    std::vector<Layers::Part> coming;  // a second, in order of flows
    double arriving = 0, leaving = 0;  // a second, in all
    double most = 0;                   // where pauses begin
    std::size_t counted = 0;           // flows when that was worked out
    Time since;
    bool pausing = false;
    std::unordered_map<std::int32_t, double> caps;  // while it pauses: rates of members and victims
  };
  struct Member {
    std::int32_t flow;
    double weight;
    double left = 0;  // what left the link for it before
  };

  bool follows(std::int32_t flow) const;
  bool has_queue(std::int32_t link) const;
  bool is_queueing(std::int32_t link) const;  // an egress port of a switch

  // In dynamics.cpp.
  void open(std::int32_t link);
  void close(std::int32_t link);
  void members(std::int32_t link);
  void tick(std::int32_t link);
  void refresh(std::int32_t link);
  void set_limit(std::int32_t flow);
  void rise(std::int32_t flow);
  void schedule_rise(std::int32_t flow);
  void look_at_others(const Machine& machine, std::int32_t link);
  void tell_others(std::int32_t flow, std::int32_t link);

  // In dynamics_queues.cpp.
  void hold(const Member& member, std::int32_t link);
  void let_go(std::int32_t flow, std::int32_t link);
  Held* held(std::int32_t flow, std::int32_t link);
  Held* held(const Layers::Part& part, std::int32_t link);
  // On a path that has both links.
  bool comes_before(std::int32_t a, std::int32_t b) const { return order_[a] < order_[b]; }
  void count_ports(std::int32_t link, Queue& queue);
  std::int32_t port_before(std::int32_t flow, std::int32_t link) const;
  double queued(const Machine& machine) const;
  void count_sent(std::int32_t flow);
  double offers(std::int32_t flow) const;
  double reaching(std::int32_t flow, std::int32_t link) const;
  double allowed(const Machine& machine, std::int32_t flow, std::int32_t link) const;
  void pass(std::int32_t link, Queue& queue, double seconds);
  void come(std::int32_t link, Queue& queue);
  void leave(std::int32_t link, Queue& queue);
  bool overflows(std::int32_t link) const;
  bool open_before_queues(std::int32_t flow);

  // In dynamics_signals.cpp.
  void signal(std::int32_t link, const Queue& queue, double before);
  struct Marking {
    double packets, p;  // that leave a second; that a packet is marked
    Time until, span;   // of the marks
    Time feedback;      // after which the sender hears of them
  };
  void mark(Machine& machine, const Marking& marking);
  Time feedback(const Machine& machine, std::int32_t link) const;
  bool hear(Machine& machine);
  double until_end(std::int32_t link, const Queue& queue) const;
  double until_news(std::int32_t link, const Queue& queue) const;
  Time next_tick(std::int32_t link, const Queue& queue) const;
  double marks_scale(std::int32_t link) const;
  static double round_trip_us(const Machine& machine, double queueing_us);

  // In dynamics_pauses.cpp.
  void share_by_ports(std::int32_t link, Queue& queue);
  void hold_victims(std::int32_t link, Queue& queue);
  void resume(std::int32_t link, Queue& queue);

  const Fabric& fabric_;
  MaxMin& rates_;
  ControlParameters control_;
  SwitchBuffers buffers_;
  PhiloxKey draws_;
  Upstream upstream_;
  Left left_;
  std::vector<std::optional<Machine>> machines_;  // by number in rates_
  std::unordered_map<std::int32_t, Queue> queues_;
  std::vector<Queue*> queue_of_;                            // by link; null: none
  static constexpr std::uint8_t kCard = 2, kLastQueue = 7;  // nic_out, nic_in
  std::vector<std::uint8_t> order_;                         // of links along a path
  DueQueue ticks_, rises_;                                  // by link, by flow
  std::vector<Member> members_;                            // of the link at hand, in order of flows
  mutable std::vector<std::pair<double, double>> wishes_;  // of a card's flows, with weights
  Time now_;
  std::uint32_t serials_ = 0;
  std::int64_t events_ = 0;
};

}  // namespace trainyard
