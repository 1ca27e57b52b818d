#include "network_models/flow/dynamics.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "core/error.h"

namespace trainyard {

Dynamics::Dynamics(const Fabric& fabric, MaxMin& rates, const ControlParameters& control,
                   const SwitchBuffers& buffers, std::uint64_t seed)
    : fabric_(fabric),
      rates_(rates),
      control_(control),
      buffers_(buffers),
      draws_(random_key(seed, "marks of flows")),
      queue_of_(static_cast<std::size_t>(fabric.links())) {
  constexpr std::array kOrder{0, 9, 1, 8, 2, 7, 3, 6, 4, 5};  // of LinkKind
  for (int kind = 0; kind < kLinkKinds; ++kind)
    order_.insert(order_.end(), static_cast<std::size_t>(fabric.links(static_cast<LinkKind>(kind))),
                  static_cast<std::uint8_t>(kOrder[static_cast<std::size_t>(kind)]));
}

bool Dynamics::follows(std::int32_t flow) const {
  return static_cast<std::size_t>(flow) < machines_.size() && machines_[flow].has_value();
}

bool Dynamics::has_queue(std::int32_t link) const { return queue_of_[link] != nullptr; }

bool Dynamics::is_queueing(std::int32_t link) const {
  return order_[link] > kCard && order_[link] <= kLastQueue;
}

bool Dynamics::paused(std::int32_t link) const {
  return has_queue(link) && queue_of_[link]->pausing;
}

std::int32_t Dynamics::last_queue(std::int32_t flow) const {
  if (!follows(flow) || machines_[flow]->queues.empty()) return -1;
  return machines_[flow]->queues.back().link;
}

double Dynamics::queue_bytes(std::int32_t link, Time now) const {
  if (!has_queue(link)) return 0;
  const Queue& queue = *queue_of_[link];
  const double grown =
      (queue.arriving - queue.leaving) * to_seconds(now - queue.since) + queue.layers.bytes();
  return std::clamp(grown, 0.0, queue.most);
}

void Dynamics::add(std::int32_t flow, Time latency, Time now) {
  now_ = now;
  if (static_cast<std::size_t>(flow) >= machines_.size()) machines_.resize(flow + 1);
  const double line =
      std::min(fabric_.capacity(LinkKind::nic_out), fabric_.capacity(LinkKind::pcie_out));
  // Clocks of cards are not in step: slots begin at a time of each flow's own.
  const PhiloxBlock drawn = philox(draws_, {static_cast<std::uint32_t>(flow), 0, 1, 0});
  const double slot_us = control_.dcqcn.cut_interval_us;
  const Time since = now - microseconds(slot_us * to_uniform(drawn[0]));
  const double threshold = -std::log1p(-to_uniform(drawn[1]));
  machines_[flow] = Machine{.control = RateControl(control_, {line}, since),
                            .latency = latency,
                            .heard = now,
                            .limit = line,
                            .threshold = threshold,
                            .draws = drawn[2],
                            .serial = ++serials_,
                            .notifications = {},
                            .queues = {}};
  rates_.set_limit(flow, line);
  int cards = 0;
  rates_.each_use(flow, [&](const MaxMin::Use& use) {
    if (order_[use.link] == kCard) machines_[flow]->card = ++cards == 1 ? use.link : -1;
    if (!has_queue(use.link)) return;
    hold({flow, use.weight}, use.link);
    ticks_.set(use.link, now, use.link);
  });
}

void Dynamics::remove(std::int32_t flow, Time now) {
  if (!follows(flow)) return;
  now_ = now;
  rises_.erase(flow);
  for (const Held& held : machines_[flow]->queues) {
    queue_of_[held.link]->caps.erase(flow);
    ticks_.set(held.link, now, held.link);
  }
  machines_[flow].reset();
}

// A flow that a full link keeps below what its card sends: a queue grows there.
bool Dynamics::look(std::span<const std::int32_t> changed, Time now) {
  now_ = now;
  bool opened = false;
  for (const std::int32_t flow : changed) {
    if (!follows(flow)) continue;
    opened |= open_before_queues(flow);
    const std::int32_t link = rates_.bottleneck(flow);
    if (link < 0 || has_queue(link) || !is_queueing(link)) continue;
    if (machines_[flow]->limit <= rates_.rate(flow) * (1 + kAlike) || rates_.rate(flow) <= 0)
      continue;
    if (!overflows(link)) continue;  // limits are coarser than what comes
    open(link);
    opened = true;
  }
  return opened;
}

Time Dynamics::due() const {
  Time at = kNever;
  if (!ticks_.empty()) at = ticks_.due();
  if (!rises_.empty()) at = std::min(at, rises_.due());
  return at;
}

void Dynamics::act(Time now) {
  now_ = now;
  while (!ticks_.empty() && ticks_.due() <= now) tick(ticks_.item());
  while (!rises_.empty() && rises_.due() <= now) rise(rises_.item());
}

void Dynamics::members(std::int32_t link) {
  members_.clear();
  rates_.each_use_of(link, [&](std::int32_t flow, double weight) {
    if (follows(flow)) members_.push_back({flow, weight});
  });
  std::ranges::sort(members_, {}, &Member::flow);
}

void Dynamics::open(std::int32_t link) {
  Queue& queue = queues_[link];
  queue_of_[link] = &queue;  // a hash table's values stay where they are
  queue.since = now_;
  rates_.set_ruled(link, true);
  members(link);
  for (const Member& member : members_) hold(member, link);
  refresh(link);
}

void Dynamics::close(std::int32_t link) {
  Queue& queue = *queue_of_[link];
  if (queue.pausing) resume(link, queue);
  members(link);
  for (const Member& member : members_) let_go(member.flow, link);
  ticks_.erase(link);
  queues_.erase(link);
  queue_of_[link] = nullptr;
  rates_.set_ruled(link, false);
  for (const Member& member : members_) {
    set_limit(member.flow);
    schedule_rise(member.flow);
  }
}

// What comes out of the last queue of its path; of flows in step what the slowest of them lets out.
void Dynamics::set_limit(std::int32_t flow) {
  Machine& machine = *machines_[flow];
  const double line = machine.control.line();
  double limit = machine.control.rate();
  bool queues = false;
  for (const Held& held : machine.queues) {
    if (held.weight == 0)
      limit = std::min(limit, queue_of_[held.link]->caps.at(flow));
    else
      limit = machine.card < 0 && queues ? std::min(limit, held.leaves) : held.leaves;
    queues = true;
  }
  // What rounding has left over when its last byte has come out of the queues.
  if (machine.all_sent && queued(machine) <= kEmpty) limit = line;
  const double change = std::abs(limit - machine.limit);
  if (change < kFine * line && change < kCoarse * machine.limit && limit != line) return;
  machine.limit = limit;
  rates_.set_limit(flow, limit);
}

void Dynamics::tick(std::int32_t link) {
  ++events_;
  Queue& queue = *queue_of_[link];
  members(link);
  if (queue.since < now_) {
    const double before = queue.layers.bytes();
    pass(link, queue, to_seconds(now_ - queue.since));
    for (const Member& member : members_) count_sent(member.flow);
    for (const Member& member : members_)
      if (hear(*machines_[member.flow])) tell_others(member.flow, link);
    signal(link, queue, before);
    queue.since = now_;
  }
  refresh(link);
}

// Other queues of a flow whose rate has changed.
void Dynamics::look_at_others(const Machine& machine, std::int32_t link) {
  for (const Held& other : machine.queues)
    if (other.link != link && queue_of_[other.link]->since < now_)
      ticks_.set(other.link, now_, other.link);
}

// The same for those that the change would make wrong by more than they look at before they are
// due.
void Dynamics::tell_others(std::int32_t flow, std::int32_t link) {
  for (const Held& other : machines_[flow]->queues) {
    if (other.link == link || queue_of_[other.link]->since >= now_) continue;
    const double change = other.weight * std::abs(reaching(flow, other.link) - other.comes);
    const double seconds = to_seconds(ticks_.due(other.link) - now_);
    if (change * seconds > kThinUs * 1e-6 * rates_.capacity(other.link))
      ticks_.set(other.link, now_, other.link);
  }
}

// Works out what comes to a link, whose members are at hand, and what goes through, and when to
// look again.
void Dynamics::refresh(std::int32_t link) {
  Queue& queue = *queue_of_[link];
  if (queue.counted != members_.size()) count_ports(link, queue);
  const double capacity = rates_.capacity(link), bytes = queue.layers.bytes();
  come(link, queue);
  const bool over = queue.arriving > capacity * (1 + kAlike);
  if (members_.empty() || capacity <= 0 || (!over && bytes <= kEmpty)) return close(link);
  leave(link, queue);
  if (queue.pausing) resume(link, queue);
  if (buffers_.pfc && bytes >= queue.most * (1 - kAlike) &&
      queue.arriving > queue.leaving * (1 + kAlike))
    share_by_ports(link, queue);
  for (const Member& member : members_) set_limit(member.flow);
  const Time next = next_tick(link, queue);
  if (next == kNever)
    ticks_.erase(link);
  else
    ticks_.set(link, now_ + next, link);
}

void Dynamics::schedule_rise(std::int32_t flow) {
  const Machine& machine = *machines_[flow];
  const RateControl& control = machine.control;
  if (control_.delays()) {
    // Beside a queue its ticks are the samples.
    if (!machine.queues.empty() || control.rate() >= control.line()) return rises_.erase(flow);
    const double round_us = round_trip_us(machine, 0);
    const double step = control_.swift.packet_bytes / (round_us * 1e-6);
    const double rounds = std::max(1.0, kFine * control.line() / step);
    return rises_.set(flow, now_ + microseconds(round_us * rounds), flow);
  }
  Time next = control.next_rise();
  if (!machine.notifications.empty()) next = std::min(next, machine.notifications.front());
  if (next == kNever) return rises_.erase(flow);
  rises_.set(flow, std::max(now_, next), flow);
}

void Dynamics::rise(std::int32_t flow) {
  ++events_;
  Machine& machine = *machines_[flow];
  if (control_.delays() && !machine.queues.empty()) return rises_.erase(flow);
  const double before = machine.control.rate();
  const double sent = before * to_seconds(now_ - machine.heard);
  machine.heard = now_;
  if (control_.delays()) {
    machine.control.sample({now_, 0, round_trip_us(machine, 0), sent});
  } else {
    machine.control.sent(sent);
    hear(machine);
    if (machine.control.next_rise() <= now_) machine.control.rise();
  }
  schedule_rise(flow);
  if (machine.queues.empty()) return set_limit(flow);
  if (std::abs(machine.control.rate() - before) > kAlike * before) tell_others(flow, -1);
}

}  // namespace trainyard
