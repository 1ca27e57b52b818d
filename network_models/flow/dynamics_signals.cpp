#include <algorithm>
#include <cmath>

#include "network_models/flow/dynamics.h"

namespace trainyard {
namespace {
constexpr double kNothingDueUs = 1e12;
}

// How long a queue counts for marking, of a port for which thresholds were scaled.
double Dynamics::marks_scale(std::int32_t link) const {
  return buffers_.marks_rate > 0 ? buffers_.marks_rate / rates_.capacity(link) : 1;
}

// Tells the cards of the flows that leave a link about its queue, which was `before` bytes long
// when it was last looked at: of the time since, the part in which it was long enough to mark.
void Dynamics::signal(std::int32_t link, const Queue& queue, double before) {
  const double capacity = rates_.capacity(link), bytes = queue.layers.bytes();
  const double least = control_.dcqcn.k_min_bytes / marks_scale(link);
  const double shorter = std::min(before, bytes), longer = std::max(before, bytes);
  double part = longer > least ? 1 : 0;
  if (shorter < least && longer > least) part = (longer - least) / (longer - shorter);
  const double mean = (std::max(shorter, least) + longer) / 2;
  const double p = control_.marks() && part > 0
                       ? control_.dcqcn.mark_probability(mean * marks_scale(link))
                       : 0.0;
  const Time span = seconds(part * to_seconds(now_ - queue.since));
  const Time until = before > bytes ? queue.since + span : now_;
  const double queueing_us = capacity > 0 ? bytes / capacity * 1e6 : 0;
  for (const Member& member : members_) {
    Machine& machine = *machines_[member.flow];
    const double packets = held(member.flow, link)->leaves / control_.dcqcn.packet_bytes;
    if (p > 0) mark(machine, {packets, p, until, span, feedback(machine, link)});
    if (control_.delays()) {
      const double sent = machine.control.rate() * to_seconds(now_ - machine.heard);
      machine.control.sample({now_, queueing_us, round_trip_us(machine, queueing_us), sent});
      machine.heard = now_;
    }
    if (p > 0) schedule_rise(member.flow);
  }
}

double Dynamics::round_trip_us(const Machine& machine, double queueing_us) {
  return std::max(1.0, 2 * to_microseconds(machine.latency)) + queueing_us;
}

// From a mark until the sender hears of it: what is left of the path, about half of it, with its
// queues, and the way back.
Time Dynamics::feedback(const Machine& machine, std::int32_t link) const {
  double waits = 0;
  for (const Held& held : machine.queues)
    if (machine.card >= 0 && held.weight > 0 && comes_before(link, held.link))
      waits += queue_bytes(held.link, now_) / rates_.capacity(held.link);
  return machine.latency + machine.latency / 2 + seconds(waits);
}

// Marks come as drawn: after so many expected ones as a draw of the exponential distribution says,
// but at least a packet after the one before, and no more than one in a slot counts.
void Dynamics::mark(Machine& machine, const Marking& marking) {
  if (marking.packets <= 0) return;
  const double slot = control_.dcqcn.notify_interval_us() * 1e-6;
  const double expected = -std::log1p(-std::min(marking.p, 1 - 1e-9));
  for (double left = to_seconds(marking.span); left > 0;) {
    const double by_draw = (machine.threshold - machine.debt) / (expected * marking.packets);
    const double by_packet = (1 - machine.packets) / marking.packets;
    const double wait = std::max({0.0, by_draw, by_packet});
    if (wait > left) {
      machine.debt += expected * marking.packets * left;
      machine.packets += marking.packets * left;
      return;
    }
    left -= wait;
    const Time at = marking.until - seconds(left);
    std::vector<Time>& coming = machine.notifications;
    coming.insert(std::ranges::upper_bound(coming, at + marking.feedback), at + marking.feedback);
    left -= slot - std::fmod(to_seconds(at), slot);
    machine.debt = machine.packets = 0;
    const PhiloxBlock drawn = philox(draws_, {machine.draws++, 0, 2, 0});
    machine.threshold = -std::log1p(-to_uniform(drawn[0]));
  }
}

// Takes the notifications that have arrived. True: they changed the rate.
bool Dynamics::hear(Machine& machine) {
  const auto later = std::ranges::upper_bound(machine.notifications, now_);
  const double before = machine.control.rate();
  for (auto at = machine.notifications.begin(); at != later; ++at) machine.control.notify(*at);
  machine.notifications.erase(machine.notifications.begin(), later);
  return machine.control.rate() != before;
}

// Until something ends at a queue, us: it is full or empty, its first layer has left, or a card has
// sent all of a flow.
double Dynamics::until_end(std::int32_t link, const Queue& queue) const {
  const double bytes = queue.layers.bytes(), growing = queue.arriving - queue.leaving;
  double us = kNothingDueUs;
  if (growing > 0 && bytes < queue.most) us = (queue.most - bytes) / growing * 1e6;
  if (growing < 0) us = -bytes / growing * 1e6;
  if (bytes > 0 && queue.leaving > 0 && !queue.layers.is_all(queue.coming, queue.arriving))
    us = std::min(us, std::max(kThinUs, queue.layers.front_bytes() / queue.leaving * 1e6));
  for (std::size_t i = 0; i < members_.size(); ++i) {
    const auto& [flow, weight, left] = members_[i];
    const double comes = queue.coming[i].bytes / weight;
    if (comes > 0 && machines_[flow]->queues.front().link == link)
      us = std::min(us, (left_(flow) - queued(*machines_[flow])) / comes * 1e6);
  }
  return us;
}

// Until the queue has news for its flows' cards, us. The first mark comes soon; where marks are
// rare, so are ticks.
double Dynamics::until_news(std::int32_t link, const Queue& queue) const {
  const double bytes = queue.layers.bytes(), growing = queue.arriving - queue.leaving;
  Time latency, notified = kNever;
  double marked_s = 1e12;  // expected, at a probability of 1
  for (const Member& member : members_) {
    const Machine& machine = *machines_[member.flow];
    latency = std::max(latency, machine.latency);
    if (!machine.notifications.empty())
      notified = std::min(notified, machine.notifications.front());
    const double packets = std::max(1.0, rates_.rate(member.flow)) / control_.dcqcn.packet_bytes;
    marked_s = std::min(marked_s, (machine.threshold - machine.debt) / packets);
  }
  double us = kNothingDueUs;
  if (control_.delays())
    us = std::max(1.0, 2 * to_microseconds(latency)) + bytes / rates_.capacity(link) * 1e6;
  if (!control_.marks()) return us;
  const DcqcnParameters& dcqcn = control_.dcqcn;
  const double soon = std::max(dcqcn.cut_interval_us, to_microseconds(latency));
  if (notified < kNever) us = std::min(us, std::max(soon, to_microseconds(notified - now_)));
  const double p = dcqcn.mark_probability(bytes * marks_scale(link));
  const double rare = std::max(soon, dcqcn.increase_interval_us / 4);
  if (p > 0) return std::min(us, std::clamp(marked_s * 1e6 / p / 2, soon, rare));
  const double least = dcqcn.k_min_bytes / marks_scale(link);
  return growing > 0 ? std::min(us, (least - bytes) / growing * 1e6 + soon) : us;
}

Time Dynamics::next_tick(std::int32_t link, const Queue& queue) const {
  const double us = std::min(until_end(link, queue), until_news(link, queue));
  if (us >= kNothingDueUs) return kNever;
  return nanoseconds(std::max<std::int64_t>(1, std::llround(std::ceil(us * 1e3))));
}

}  // namespace trainyard
