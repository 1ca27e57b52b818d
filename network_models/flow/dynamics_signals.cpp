#include <algorithm>
#include <cmath>

#include "network_models/flow/dynamics.h"

namespace trainyard {

// Tells the cards of the flows through a link about its queue.
void Dynamics::signal(std::int32_t link, const Queue& queue, Time now) {
  const Time span = now - queue.since;
  const double capacity = rates_.capacity(link);
  const double scale = buffers_.marks_rate > 0 ? buffers_.marks_rate / capacity : 1;
  const double p = control_.marks() ? control_.dcqcn.mark_probability(queue.bytes * scale) : 0.0;
  const double queueing_us = capacity > 0 ? queue.bytes / capacity * 1e6 : 0;
  for (const Member& member : members_) {
    Machine& machine = *machines_[member.flow];
    const double packets = rates_.rate(member.flow) / control_.dcqcn.packet_bytes;
    if (p > 0) mark(machine, -std::log1p(-std::min(p, 1 - 1e-9)) * packets, now, span);
    if (control_.delays()) {
      const double sent = machine.control.rate() * to_seconds(now - machine.heard);
      machine.control.sample({now, queueing_us, round_trip_us(machine, queueing_us), sent});
      machine.heard = now;
    }
    if (p > 0) schedule_rise(member.flow, now);
  }
}

double Dynamics::round_trip_us(const Machine& machine, double queueing_us) const {
  return std::max(1.0, 2 * to_microseconds(machine.latency)) + queueing_us;
}

// Marks come as drawn: after so many expected ones as a draw of the exponential distribution says,
// and no more than one in a slot counts.
void Dynamics::mark(Machine& machine, double per_second, Time now, Time span) {
  const double slot = control_.dcqcn.notify_interval_us() * 1e-6;
  double left = to_seconds(span);
  while (machine.debt + per_second * left >= machine.threshold) {
    left -= std::max(0.0, (machine.threshold - machine.debt) / per_second);
    const Time at = now - seconds(std::max(0.0, left));
    machine.control.notify(at);
    const double into = std::fmod(to_seconds(at), slot);
    left -= slot - into;
    machine.debt = 0;
    const PhiloxBlock drawn = philox(draws_, {machine.draws++, 0, 2, 0});
    machine.threshold = -std::log1p(-to_uniform(drawn[0]));
    if (left <= 0) return;
  }
  machine.debt += per_second * left;
}

// The longest queue and the first cut come soon; where marks are rare, so are ticks.
Time Dynamics::next_tick(std::int32_t link, const Queue& queue) const {
  const double capacity = rates_.capacity(link), growing = queue.arriving - capacity;
  const auto until = [&](double bytes) {
    return growing != 0 ? (bytes - queue.bytes) / growing * 1e6 : 1e12;
  };
  double us = 1e12;
  if (growing > 0 && queue.bytes < queue.most) us = until(queue.most);
  if (growing < 0) us = until(0);
  Time latency;
  for (const Member& member : members_)
    latency = std::max(latency, machines_[member.flow]->latency);
  const double feedback = to_microseconds(latency);
  if (control_.delays())
    us = std::min(us, std::max(1.0, 2 * feedback) + queue.bytes / capacity * 1e6);
  if (control_.marks()) {
    const DcqcnParameters& dcqcn = control_.dcqcn;
    const double scale = buffers_.marks_rate > 0 ? buffers_.marks_rate / capacity : 1;
    const double soon = std::max(dcqcn.cut_interval_us, feedback);
    const double p = dcqcn.mark_probability(queue.bytes * scale);
    if (p <= 0) {
      if (growing > 0) us = std::min(us, until(dcqcn.k_min_bytes / scale) + soon);
    } else {
      double marks = 1e12;
      for (const Member& member : members_) {
        const Machine& machine = *machines_[member.flow];
        const double rate = std::max(1.0, rates_.rate(member.flow)) / dcqcn.packet_bytes * p;
        marks = std::min(marks, (machine.threshold - machine.debt) / rate * 1e6);
      }
      us =
          std::min(us, std::clamp(marks / 2, soon, std::max(soon, dcqcn.increase_interval_us / 4)));
    }
  }
  return us >= 1e12 ? kNever : nanoseconds(std::max<std::int64_t>(1, std::llround(us * 1e3)));
}

}  // namespace trainyard
