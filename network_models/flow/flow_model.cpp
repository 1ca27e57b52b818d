#include "network_models/flow/flow_model.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/error.h"

namespace trainyard {
namespace {

constexpr int kSlotBits = 32;

std::vector<double> capacities(const Fabric& fabric) {
  std::vector<double> out;
  out.reserve(static_cast<std::size_t>(fabric.links()));
  for (int kind = 0; kind < kLinkKinds; ++kind)
    out.insert(out.end(), static_cast<std::size_t>(fabric.links(static_cast<LinkKind>(kind))),
               fabric.capacity(static_cast<LinkKind>(kind)));
  return out;
}

// One entry a link, with the number of queue pairs that cross it.
void merge(std::vector<MaxMin::Use>& uses) {
  std::ranges::sort(uses, {}, &MaxMin::Use::link);
  std::size_t kept = 0;
  for (const MaxMin::Use& use : uses)
    if (kept > 0 && uses[kept - 1].link == use.link)
      uses[kept - 1].weight += use.weight;
    else
      uses[kept++] = use;
  uses.resize(kept);
}

}  // namespace

FlowModel::FlowModel(const Cluster& cluster, const Network& network, const Placement& placement,
                     std::uint64_t seed)
    : fabric_(cluster),
      router_(fabric_, cluster.fabric.polarised, seed),
      placement_(placement),
      queue_pairs_(static_cast<std::uint32_t>(network.qps_per_connection)),
      rates_(capacities(fabric_)),
      carried_(static_cast<std::size_t>(fabric_.links())),
      transport_(network, seed) {
  const ControlParameters control = control_parameters(cluster, network);
  if (control.control == Control::ideal) return;
  dynamics_ =
      std::make_unique<Dynamics>(fabric_, rates_, control, switch_buffers(cluster, control), seed);
  dynamics_->set_flows(std::bind_front(&FlowModel::upstream, this),
                       std::bind_front(&FlowModel::left, this));
}

FlowId FlowModel::start_in_step(std::span<const Flow> flows, Time now) {
  go_to(now);
  auto slot = static_cast<std::int32_t>(transfers_.size());
  if (free_.empty()) {
    transfers_.emplace_back();
  } else {
    slot = free_.back();
    free_.pop_back();
  }
  Transfer& transfer = transfers_[slot];
  transfer.id = FlowId{started_ << kSlotBits | slot};
  transfer.order = started_++;
  transfer.flows.assign(flows.begin(), flows.end());
  transfer.left = static_cast<double>(flows.front().bytes.value) / queue_pairs_;
  transfer.size = transfer.left;
  transfer.started = transfer.since = now;
  send(slot);
  return transfer.id;
}

// Puts the transfer on its paths, or finds that they do not work.
void FlowModel::send(std::int32_t slot) {
  Transfer& transfer = transfers_[slot];
  if (!find_paths(transfer)) return lose(slot);
  if (uses_.empty() || transfer.left <= 0)
    return due_.set(slot, now_ + transfer.latency, transfer.order);
  merge(uses_);
  transfer.turns = turns_of_a_card();
  const bool controlled = dynamics_ && transfer.latency.value > 0;
  transfer.flow = rates_.add(uses_, controlled ? card_rate() : MaxMin::kUnlimited);
  slot_of_flow_.resize(std::max<std::size_t>(slot_of_flow_.size(), transfer.flow + 1));
  slot_of_flow_[transfer.flow] = slot;
  if (controlled) dynamics_->add(transfer.flow, transfer.latency, now_);
  count_carried(transfer, 1);
}

// Takes the transfer off its paths, with what is left.
void FlowModel::take_off(std::int32_t slot) {
  leave_clock(slot);
  Transfer& transfer = transfers_[slot];
  count_sent(transfer);
  count_carried(transfer, -1);
  transfer.rate = 0;
  due_.erase(slot);
  forget(std::exchange(transfer.flow, -1));
}

void FlowModel::count_carried(const Transfer& transfer, double sign) {
  rates_.each_use(transfer.flow, [&](const MaxMin::Use& use) {
    carried_[static_cast<std::size_t>(use.link)] += sign * use.weight * transfer.left;
  });
}

std::optional<NetworkUse> FlowModel::use(Time whole) const {
  NetworkUse out{slowest_, 0, "", "", stalls_, longest_stall_};
  if (slowest_ < 1 && index(slowest_link_) >= 0) out.slowest_name = fabric_.name(slowest_link_);
  LinkId busiest{-1};
  for (std::int32_t i = 0; i < fabric_.links(); ++i) {
    const LinkKind kind = fabric_.place(LinkId{i}).kind;
    if (kind < LinkKind::nic_out) continue;
    const double can = fabric_.capacity(kind) * to_seconds(whole);
    const double load = carried_[static_cast<std::size_t>(i)] / can;
    if (load <= out.busiest_link) continue;
    out.busiest_link = load;
    busiest = LinkId{i};
  }
  if (index(busiest) >= 0) out.busiest_name = fabric_.name(busiest);
  return out;
}

void FlowModel::route_around(LinkId link, bool down, Time now) {
  go_to(now);
  settle();
  router_.set_up(link, !down);
  if (down)
    for (const std::int32_t slot : crossing(link)) {
      take_off(slot);
      send(slot);
    }
  look_for_paths();
}

std::int32_t FlowModel::slot(FlowId flow) const {
  const auto slot = static_cast<std::int32_t>(index(flow) & ((std::int64_t{1} << kSlotBits) - 1));
  check(static_cast<std::size_t>(slot) < transfers_.size() && transfers_[slot].id == flow,
        "flow {} is not in flight", index(flow));
  return slot;
}

void FlowModel::cancel(FlowId flow, Time now) {
  go_to(now);
  const std::int32_t at = slot(flow);
  if (transfers_[at].flow >= 0) {
    settle();
    take_off(at);
  }
  std::erase(lost_, at);
  release(at);
}

void FlowModel::set_capacity(LinkId link, double fraction, Time now) {
  go_to(now);
  const bool dies = set_dead(link, fraction == 0);
  if (dies) lose_all_over(link);
  // A link without a limit has one only while it is down.
  const double capacity = fraction > 0 ? fraction * fabric_.capacity(link) : 0;
  rates_.set_capacity(static_cast<std::int32_t>(link), capacity);
  look_for_paths();
}

// Changes of one moment are solved together, when time goes on.
void FlowModel::go_to(Time now) {
  check(now >= now_, "the network is at {} ns, past {} ns", now_.value, now.value);
  if (now == now_) return;
  settle();
  while (next() < now) {
    now_ = next();
    if (react()) continue;
    const Transfer& transfer = transfers_[due_.item()];
    check(transfer.flow >= 0 || transfer.lost < kNever,
          "a flow ended at {} ns, which nobody has heard of", now_.value);
    happen(due_.item());
    settle();
  }
  now_ = now;
}

// Brings the rates, and when each flow will have sent all, up to date.
void FlowModel::settle() {
  std::span<const std::int32_t> changed;
  do {
    changed = rates_.solve();
    move_bundles();
    for (const std::int32_t flow : changed) set_end(flow);
  } while (dynamics_ && dynamics_->look(changed, now_));
}

void FlowModel::set_end(std::int32_t flow) {
  ++solved_;
  const std::int32_t slot = slot_of_flow_[flow];
  Transfer& transfer = transfers_[slot];
  if (transfer.clock >= 0) return;
  count_sent(transfer);
  transfer.rate = rates_.rate(flow);
  set_due(slot, transfer.left, transfer.rate);
}

// All bytes that are left will have been sent.
void FlowModel::set_due(std::int32_t slot, double left, double rate) {
  const double ns = left / rate * 1e9;
  // Ends are rounded up to whole nanoseconds; one that lies on a nanosecond but for rounding
  // stays there.
  if (ns < static_cast<double>(kNever.value / 2))
    due_.set(slot, now_ + nanoseconds(std::llround(std::ceil(ns - 1e-3))), transfers_[slot].order);
  else
    due_.erase(slot);
}

void FlowModel::count_sent(Transfer& transfer) const {
  transfer.left -= transfer.rate * to_seconds(now_ - transfer.since);
  transfer.left = std::max(0.0, transfer.left);
  transfer.since = now_;
}

void FlowModel::finish_sending(std::int32_t slot) {
  Transfer& transfer = transfers_[slot];
  leave_clock(slot);
  const LinkId held = bottleneck_of(transfer.flow);
  forget(std::exchange(transfer.flow, -1));
  count_pace(transfer, held);
  Time wait;
  if (transfer.loss > 0)
    wait = transport_.wait_for_last(transfer.loss, static_cast<std::uint64_t>(transfer.order));
  if (wait == kNever) return give_up(transfer);
  count_stall(wait);
  transfer.flows.clear();
  due_.set(slot, now_ + transfer.latency + wait, transfer.order);
}

void FlowModel::release(std::int32_t slot) {
  due_.erase(slot);
  std::vector<Flow> memory = std::move(transfers_[slot].flows);
  memory.clear();
  transfers_[slot] = {};
  transfers_[slot].flows = std::move(memory);
  free_.push_back(slot);
}

// All bytes are sent, or a sender's timer has run out.
void FlowModel::happen(std::int32_t slot) {
  if (transfers_[slot].flow >= 0)
    finish_sending(slot);
  else
    retry(slot);
}

Time FlowModel::advance(Time limit, std::vector<FlowEnd>& ended) {
  if (failure_) return limit;
  const std::size_t before = ended.size();
  for (;;) {
    settle();
    if (next() > limit || (due_.empty() && limit == kNever)) {
      // Nothing more will happen by itself: the clock stays where it can be set from.
      if (limit < kNever) now_ = std::max(now_, limit);
      return limit;
    }
    now_ = next();
    if (react()) continue;
    while (!due_.empty() && due_.due() == now_) {
      const std::int32_t slot = due_.item();
      if (transfers_[slot].flow >= 0 || transfers_[slot].lost < kNever) {
        happen(slot);
        if (failure_) return now_;
        continue;
      }
      ended.push_back({transfers_[slot].id, now_});
      release(slot);
    }
    if (ended.size() > before) return now_;
  }
}

Bandwidth FlowModel::rate(FlowId flow) {
  settle();
  return {rate_of(transfers_[slot(flow)]) * queue_pairs_};
}

LinkId FlowModel::bottleneck(FlowId flow) {
  settle();
  return bottleneck_of(transfers_[slot(flow)].flow);
}

Bandwidth FlowModel::load(LinkId link) {
  settle();
  return {rates_.load(static_cast<std::int32_t>(link))};
}

double FlowModel::queue_pairs(LinkId link) const {
  double all = 0;
  rates_.each_use_of(static_cast<std::int32_t>(link), [&](std::int32_t, double w) { all += w; });
  return all;
}

}  // namespace trainyard
