#include "network_models/flow/dynamics.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/error.h"

namespace trainyard {
namespace {

// Limits that change by less than this part of line rate are left as they are.
constexpr double kFine = 1.0 / 256, kCoarse = 0.05;  // and by less than that part of themselves
constexpr double kAlike = 1e-6;
constexpr double kEmpty = 1;  // byte

bool marks(LinkKind kind) { return kind >= LinkKind::nic_in; }

}  // namespace

Dynamics::Dynamics(const Fabric& fabric, MaxMin& rates, const ControlParameters& control,
                   const SwitchBuffers& buffers, std::uint64_t seed)
    : fabric_(fabric),
      rates_(rates),
      control_(control),
      buffers_(buffers),
      draws_(random_key(seed, "marks of flows")),
      queue_of_(static_cast<std::size_t>(fabric.links())) {}

bool Dynamics::follows(std::int32_t flow) const {
  return static_cast<std::size_t>(flow) < machines_.size() && machines_[flow].has_value();
}

bool Dynamics::has_queue(std::int32_t link) const { return queue_of_[link] != nullptr; }

bool Dynamics::paused(std::int32_t link) const {
  return has_queue(link) && queue_of_[link]->pausing;
}

double Dynamics::queue_bytes(std::int32_t link, Time now) const {
  if (!has_queue(link)) return 0;
  const Queue& queue = *queue_of_[link];
  const double grown =
      (queue.arriving - rates_.capacity(link)) * to_seconds(now - queue.since) + queue.bytes;
  return std::clamp(grown, 0.0, queue.most);
}

void Dynamics::add(std::int32_t flow, Time latency, Time now) {
  if (static_cast<std::size_t>(flow) >= machines_.size()) machines_.resize(flow + 1);
  const double line =
      std::min(fabric_.capacity(LinkKind::nic_out), fabric_.capacity(LinkKind::pcie_out));
  // Clocks of cards are not in step: slots begin at a time of each flow's own.
  const PhiloxBlock drawn = philox(draws_, {static_cast<std::uint32_t>(flow), 0, 1, 0});
  const double slot_us = control_.dcqcn.cut_interval_us;
  const Time since = now - microseconds(slot_us * to_uniform(drawn[0]));
  const double threshold = -std::log1p(-to_uniform(drawn[1]));
  machines_[flow] =
      Machine{RateControl(control_, {line}, since), latency, now, line, 0, threshold, drawn[2], {}};
  rates_.set_limit(flow, line);
  if (queues_.empty()) return;
  rates_.each_use(flow, [&](const MaxMin::Use& use) {
    if (!has_queue(use.link)) return;
    hold(flow, use.link);
    ticks_.set(use.link, now, use.link);
  });
}

void Dynamics::remove(std::int32_t flow, Time now) {
  if (!follows(flow)) return;
  rises_.erase(flow);
  for (const std::int32_t link : machines_[flow]->queues) {
    queue_of_[link]->caps.erase(flow);
    ticks_.set(link, now, link);
  }
  machines_[flow].reset();
}

// A flow that a full link keeps below what its card sends: a queue grows there.
bool Dynamics::look(std::span<const std::int32_t> changed, Time now) {
  bool opened = false;
  for (const std::int32_t flow : changed) {
    if (!follows(flow)) continue;
    const std::int32_t link = rates_.bottleneck(flow);
    if (link < 0 || has_queue(link) || !marks(fabric_.place(LinkId{link}).kind)) continue;
    if (machines_[flow]->limit <= rates_.rate(flow) * (1 + kAlike) || rates_.rate(flow) <= 0)
      continue;
    open(link, now);
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
  while (!ticks_.empty() && ticks_.due() <= now) tick(ticks_.item(), now);
  while (!rises_.empty() && rises_.due() <= now) rise(rises_.item(), now);
}

void Dynamics::members(std::int32_t link) {
  members_.clear();
  rates_.each_use_of(link, [&](std::int32_t flow, double weight) {
    members_.push_back({flow, weight});
  });
}

void Dynamics::open(std::int32_t link, Time now) {
  Queue& queue = queues_[link];
  queue_of_[link] = &queue;  // a hash table's values stay where they are
  queue.since = now;
  members(link);
  // Packets of n ports that share what is free by dynamic thresholds fill n s / (1 + n s) of it.
  double ports = 0;
  for (const Member& member : members_) ports += member.weight;
  const double filled = ports * buffers_.share;
  queue.most = buffers_.bytes * filled / (1 + filled);
  for (const Member& member : members_) hold(member.flow, link);
  refresh(link, now);
}

void Dynamics::close(std::int32_t link, Time now) {
  Queue& queue = *queue_of_[link];
  if (queue.pausing) resume(link, queue);
  members(link);
  for (const Member& member : members_) let_go(member.flow, link);
  ticks_.erase(link);
  queues_.erase(link);
  queue_of_[link] = nullptr;
  for (const Member& member : members_) {
    set_limit(member.flow);
    schedule_rise(member.flow, now);
  }
}

void Dynamics::hold(std::int32_t flow, std::int32_t link) {
  std::vector<std::int32_t>& queues = machines_[flow]->queues;
  if (std::ranges::find(queues, link) == queues.end()) queues.push_back(link);
}

void Dynamics::let_go(std::int32_t flow, std::int32_t link) {
  std::erase(machines_[flow]->queues, link);
}

// What the card sends, less what queues on the way keep back, and what one that empties adds.
void Dynamics::set_limit(std::int32_t flow) {
  Machine& machine = *machines_[flow];
  const double sends = machine.control.rate(), line = machine.control.line();
  double limit = sends, emptying = 1;
  for (const std::int32_t link : machine.queues) {
    const Queue& queue = *queue_of_[link];
    limit = std::min(limit, let_through(queue, flow, sends));
    if (!queue.pausing) emptying = std::max(emptying, queue.share);
  }
  if (limit >= sends) limit = sends * emptying;
  const double change = std::abs(limit - machine.limit);
  if (change < kFine * line && change < kCoarse * machine.limit && limit != line) return;
  machine.limit = limit;
  rates_.set_limit(flow, limit);
}

double Dynamics::let_through(const Queue& queue, std::int32_t flow, double sends) const {
  if (!queue.pausing) return sends * queue.share;
  const auto cap = queue.caps.find(flow);
  return cap == queue.caps.end() ? sends : std::min(sends, cap->second);
}

// What the flow sends onto the link, bytes per second of a queue pair: other links let only part of
// it through.
double Dynamics::arriving(std::int32_t flow, std::int32_t link) const {
  const Machine& machine = *machines_[flow];
  const double sends = machine.control.rate();
  double rate = sends;
  for (const std::int32_t other : machine.queues)
    if (other != link) rate = std::min(rate, let_through(*queue_of_[other], flow, sends));
  return rate;
}

void Dynamics::tick(std::int32_t link, Time now) {
  ++events_;
  Queue& queue = *queue_of_[link];
  const Time span = now - queue.since;
  if (span.value > 0) {
    members(link);
    queue.bytes = queue_bytes(link, now);
    signal(link, queue, now);
    queue.since = now;
  }
  refresh(link, now);
}

// Works out what arrives at a link and what goes through, and when to look again.
void Dynamics::refresh(std::int32_t link, Time now) {
  Queue& queue = *queue_of_[link];
  members(link);
  const double capacity = rates_.capacity(link);
  queue.arriving = 0;
  for (const Member& member : members_)
    queue.arriving += member.weight * arriving(member.flow, link);
  const bool over = queue.arriving > capacity * (1 + kAlike);
  if (members_.empty() || capacity <= 0 || (!over && queue.bytes <= kEmpty))
    return close(link, now);
  queue.share = capacity / queue.arriving;
  const bool full = buffers_.pfc && over && queue.bytes >= queue.most * (1 - kAlike);
  if (queue.pausing) resume(link, queue);
  if (full) share_by_ports(link, queue);
  for (const Member& member : members_) set_limit(member.flow);
  const Time next = next_tick(link, queue);
  if (next == kNever)
    ticks_.erase(link);
  else
    ticks_.set(link, now + next, link);
}

void Dynamics::schedule_rise(std::int32_t flow, Time now) {
  const Machine& machine = *machines_[flow];
  const RateControl& control = machine.control;
  if (control_.delays()) {
    // Beside a queue its ticks are the samples.
    if (!machine.queues.empty() || control.rate() >= control.line()) return rises_.erase(flow);
    const double round_us = round_trip_us(machine, 0);
    const double step = control_.swift.packet_bytes / (round_us * 1e-6);
    const double rounds = std::max(1.0, kFine * control.line() / step);
    return rises_.set(flow, now + microseconds(round_us * rounds), flow);
  }
  if (control.next_rise() == kNever) return rises_.erase(flow);
  rises_.set(flow, std::max(now, control.next_rise()), flow);
}

void Dynamics::rise(std::int32_t flow, Time now) {
  ++events_;
  Machine& machine = *machines_[flow];
  if (control_.delays() && !machine.queues.empty()) return rises_.erase(flow);
  const double before = machine.control.rate();
  const double sent = before * to_seconds(now - machine.heard);
  machine.heard = now;
  if (control_.delays()) {
    machine.control.sample({now, 0, round_trip_us(machine, 0), sent});
  } else {
    machine.control.sent(sent);
    if (machine.control.next_rise() <= now) machine.control.rise();
  }
  schedule_rise(flow, now);
  if (machine.queues.empty()) return set_limit(flow);
  if (std::abs(machine.control.rate() - before) < kAlike * before) return;
  for (const std::int32_t link : machine.queues)
    if (queue_of_[link]->since < now) ticks_.set(link, now, link);
}

}  // namespace trainyard
