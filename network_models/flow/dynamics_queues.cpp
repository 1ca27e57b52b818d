#include <algorithm>
#include <cmath>
#include <utility>

#include "network_models/flow/dynamics.h"

namespace trainyard {

void Dynamics::hold(const Member& member, std::int32_t link) {
  Machine& machine = *machines_[member.flow];
  if (held(member.flow, link) != nullptr) return;
  machine.queues.push_back({link, member.weight});
  if (machine.card < 0) return;
  std::ranges::stable_sort(machine.queues, [this](const Held& a, const Held& b) {
    if (a.weight == 0 || b.weight == 0) return a.weight > b.weight;
    return comes_before(a.link, b.link);
  });
}

void Dynamics::let_go(std::int32_t flow, std::int32_t link) {
  std::erase_if(machines_[flow]->queues, [&](const Held& held) { return held.link == link; });
}

Dynamics::Held* Dynamics::held(std::int32_t flow, std::int32_t link) {
  for (Held& held : machines_[flow]->queues)
    if (held.link == link) return &held;
  return nullptr;
}

// Null if the flow is there no more.
Dynamics::Held* Dynamics::held(const Layers::Part& part, std::int32_t link) {
  if (!follows(part.flow) || machines_[part.flow]->serial != part.serial) return nullptr;
  return held(part.flow, link);
}

// Packets of n ports that share what is free by dynamic thresholds fill n s / (1 + n s) of it.
void Dynamics::count_ports(std::int32_t link, Queue& queue) {
  std::vector<std::int32_t> ports;
  double count = 0;
  for (const Member& member : members_)
    if (machines_[member.flow]->card < 0)
      count += member.weight;
    else
      ports.push_back(port_before(member.flow, link));
  std::ranges::sort(ports);
  count += static_cast<double>(std::ranges::unique(ports).begin() - ports.begin());
  const double filled = count * buffers_.share;
  queue.most = buffers_.bytes * filled / (1 + filled);
  queue.counted = members_.size();
}

// The link of a flow's only path before `link`; -1: none.
std::int32_t Dynamics::port_before(std::int32_t flow, std::int32_t link) const {
  std::int32_t last = -1;
  rates_.each_use(flow, [&](const MaxMin::Use& use) {
    if (!comes_before(use.link, link)) return;
    if (last < 0 || comes_before(last, use.link)) last = use.link;
  });
  return last;
}

// What of a flow is in queues. Of flows in step, all edges have sent as much.
double Dynamics::queued(const Machine& machine) const {
  double queued = 0;
  for (const Held& held : machine.queues)
    if (held.weight > 0) {
      const double bytes = held.bytes / held.weight;
      queued = machine.card < 0 ? std::max(queued, bytes) : queued + bytes;
    }
  return queued;
}

// Whether the card has sent all: what has not arrived is in queues.
void Dynamics::count_sent(std::int32_t flow) {
  Machine& machine = *machines_[flow];
  if (left_(flow) - queued(machine) <= kEmpty) machine.all_sent = true;
}

// What its card sends of a flow, whose queue pairs take turns with others of the card.
double Dynamics::offers(std::int32_t flow) const {
  const auto wish_of = [this](std::int32_t of) {
    const Machine& machine = *machines_[of];
    if (machine.all_sent) return 0.0;
    return std::min(machine.control.rate(), allowed(machine, of, -1));
  };
  const Machine& machine = *machines_[flow];
  const double wish = wish_of(flow);
  if (machine.card < 0) return wish;
  wishes_.clear();
  double all = 0, weights = 0;
  rates_.each_use_of(machine.card, [&](std::int32_t other, double weight) {
    if (!follows(other)) return;
    wishes_.emplace_back(other == flow ? wish : wish_of(other), weight);
    all += wishes_.back().first * weight;
    weights += weight;
  });
  double left = rates_.capacity(machine.card);
  if (all <= left) return wish;
  std::ranges::sort(wishes_);
  for (const auto& [each, weight] : wishes_) {
    if (each * weights >= left) return std::min(wish, left / weights);
    left -= each * weight;
    weights -= weight;
  }
  return wish;
}

// The most that queues which pause a flow let it bring, of those after `link`; -1: all.
double Dynamics::allowed(const Machine& machine, std::int32_t flow, std::int32_t link) const {
  double most = MaxMin::kUnlimited;
  for (const Held& held : machine.queues) {
    const Queue& queue = *queue_of_[held.link];
    if (!queue.pausing || held.link == link) continue;
    if (link >= 0 && held.weight > 0 && machine.card >= 0 && comes_before(held.link, link))
      continue;
    const auto cap = queue.caps.find(flow);
    if (cap != queue.caps.end()) most = std::min(most, cap->second);
  }
  return most;
}

// What of a flow comes to a link: what leaves the queue before it, or else its card.
double Dynamics::reaching(std::int32_t flow, std::int32_t link) const {
  const Machine& machine = *machines_[flow];
  double rate = -1;
  for (const Held& held : machine.queues) {
    if (held.weight == 0 || held.link == link) continue;
    if (machine.card >= 0 && !comes_before(held.link, link)) continue;
    rate = machine.card < 0 && rate >= 0 ? std::min(rate, held.leaves) : held.leaves;
  }
  if (machine.card < 0) return rate < 0 ? offers(flow) : std::min(rate, offers(flow));
  return rate < 0 ? offers(flow) : rate;
}

// Lets time pass at a queue.
void Dynamics::pass(std::int32_t link, Queue& queue, double seconds) {
  const double came = queue.arriving * seconds, left = queue.leaving * seconds;
  const double room = std::max(0.0, queue.most + left - queue.layers.bytes());
  const double kept = came > room ? room / came : 1;  // what finds no room is lost, and sent again
  std::vector<Layers::Part>& parts = queue.coming;
  for (Layers::Part& part : parts) {
    part.bytes *= seconds * kept;
    if (Held* at = held(part, link)) at->bytes += part.bytes;
  }
  constexpr double kLayers = 16;
  const double thin = kThinUs * 1e-6 * rates_.capacity(link);
  queue.layers.add(parts, std::max(thin, queue.layers.bytes() / kLayers));
  queue.layers.take(left, [&](const Layers::Part& part) {
    if (Held* at = held(part, link)) at->bytes = std::max(0.0, at->bytes - part.bytes);
  });
  parts.clear();
}

void Dynamics::come(std::int32_t link, Queue& queue) {
  queue.coming.clear();
  queue.arriving = 0;
  for (const Member& member : members_) {
    double& comes = held(member.flow, link)->comes;
    comes = reaching(member.flow, link);
    const double bytes = member.weight * comes;
    queue.coming.push_back({member.flow, machines_[member.flow]->serial, bytes});
    queue.arriving += bytes;
  }
}

// What leaves a queue is what came first, and no faster than the first to be paused further on.
void Dynamics::leave(std::int32_t link, Queue& queue) {
  const double capacity = rates_.capacity(link);
  for (Member& member : members_) member.left = std::exchange(held(member.flow, link)->leaves, 0);
  const bool waits = queue.layers.bytes() > kEmpty;
  const std::span<const Layers::Part> front = waits ? queue.layers.front() : queue.coming;
  const double all = waits ? queue.layers.front_bytes() : queue.arriving;
  double pace = 1;
  for (const Layers::Part& part : front) {
    Held* at = held(part, link);
    if (at == nullptr || part.bytes <= 0) continue;
    at->leaves = capacity * part.bytes / all / at->weight;
    const double most = allowed(*machines_[part.flow], part.flow, link);
    if (at->leaves > most) pace = std::min(pace, most / at->leaves);
  }
  if (pace < 1)
    for (const Member& member : members_) held(member.flow, link)->leaves *= pace;
  queue.leaving = pace * capacity;
  for (const Member& member : members_) {
    const Machine& machine = *machines_[member.flow];
    if (machine.card < 0 || machine.queues.size() < 2) continue;
    const double change = std::abs(held(member.flow, link)->leaves - member.left);
    if (change > kFine * machine.control.line()) tell_others(member.flow, link);
  }
}

// Whether more comes to a link than it carries.
bool Dynamics::overflows(std::int32_t link) const {
  double comes = 0;
  rates_.each_use_of(link, [&](std::int32_t flow, double weight) {
    if (follows(flow)) comes += weight * reaching(flow, link);
  });
  return comes > rates_.capacity(link) * (1 + kAlike);
}

// Where a queue further on keeps flows below what they send, the solver does not see that they fill
// a link before it.
bool Dynamics::open_before_queues(std::int32_t flow) {
  const Machine& machine = *machines_[flow];
  if (machine.queues.empty() || machine.card < 0) return false;
  const Held& last = machine.queues.back();
  std::vector<std::int32_t> full;
  rates_.each_use(flow, [&](const MaxMin::Use& use) {
    if (has_queue(use.link) || !is_queueing(use.link)) return;
    if (last.weight > 0 && comes_before(last.link, use.link)) return;
    if (overflows(use.link)) full.push_back(use.link);
  });
  for (const std::int32_t link : full) open(link);
  return !full.empty();
}

}  // namespace trainyard
