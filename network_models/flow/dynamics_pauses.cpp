#include <algorithm>
#include <map>

#include "network_models/flow/dynamics.h"

namespace trainyard {

// The ports upstream are paused in turns: each has an equal part of the link, or what it needs, and
// packets of a port's flows go in order.
void Dynamics::share_by_ports(std::int32_t link, Queue& queue) {
  std::map<std::int32_t, double> ports;  // what each brings
  std::vector<std::int32_t> port_of, before;
  for (const Member& member : members_) {
    before.clear();
    upstream_(member.flow, link, before);
    port_of.push_back(before.empty() ? -1 : before.back());
    ports[port_of.back()] += member.weight * arriving(member.flow, link);
  }
  std::vector<std::pair<double, std::int32_t>> by_need;
  for (const auto& [port, sent] : ports) {
    const double most = port < 0 ? sent : std::min(sent, rates_.capacity(port));
    by_need.emplace_back(most, port);
  }
  std::ranges::sort(by_need);
  double left = rates_.capacity(link);
  for (std::size_t i = 0; i < by_need.size(); ++i) {
    const double part = std::min(by_need[i].first, left / static_cast<double>(by_need.size() - i));
    left -= part;
    double& sent = ports[by_need[i].second];
    sent = part / sent;  // from here on: the part that goes through
  }
  queue.pausing = true;
  for (std::size_t i = 0; i < members_.size(); ++i) {
    const std::int32_t flow = members_[i].flow;
    queue.caps[flow] = arriving(flow, link) * ports[port_of[i]];
  }
  hold_victims(link, queue);
}

// Flows that wait behind those of a full queue: they share a link before it with one of them, or
// with another victim before the link where that one waits, and get through it at the same pace.
void Dynamics::hold_victims(std::int32_t link, Queue& queue) {
  struct Waiting {
    std::int32_t flow, before;
    double pace;  // of what it sends
  };
  const auto sends = [this](std::int32_t flow) { return machines_[flow]->control.rate(); };
  std::vector<Waiting> waiting;
  for (const Member& member : members_)
    waiting.push_back({member.flow, link, queue.caps[member.flow] / sends(member.flow)});
  std::ranges::stable_sort(waiting, {}, &Waiting::pace);
  std::vector<std::int32_t> links;
  for (std::size_t i = 0; i < waiting.size(); ++i) {
    const Waiting behind = waiting[i];
    links.clear();
    upstream_(behind.flow, behind.before, links);
    for (const std::int32_t shared : links) {
      if (fabric_.place(LinkId{shared}).kind < LinkKind::nic_out) continue;
      rates_.each_use_of(shared, [&](std::int32_t flow, double) {
        if (!follows(flow) || queue.caps.contains(flow)) return;
        hold(flow, link);
        queue.caps[flow] = sends(flow) * behind.pace;
        waiting.push_back({flow, shared, behind.pace});
        set_limit(flow);
      });
    }
  }
}

void Dynamics::resume(std::int32_t link, Queue& queue) {
  queue.pausing = false;
  std::vector<std::int32_t> victims;
  for (const auto& [flow, cap] : queue.caps) victims.push_back(flow);
  std::ranges::sort(victims);  // results do not hang on the order of a hash table
  queue.caps.clear();
  for (const Member& member : members_) std::erase(victims, member.flow);
  for (const std::int32_t victim : victims) {
    let_go(victim, link);
    set_limit(victim);
  }
}

}  // namespace trainyard
