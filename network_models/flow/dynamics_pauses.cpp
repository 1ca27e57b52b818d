#include <algorithm>
#include <map>

#include "network_models/flow/dynamics.h"

namespace trainyard {

// The ports upstream are paused in turns: each has an equal part of the link, or what it needs, and
// packets of a port's flows go in order.
void Dynamics::share_by_ports(std::int32_t link, Queue& queue) {
  std::map<std::int32_t, double> ports;  // what each brings
  std::vector<std::int32_t> port_of, before;
  for (std::size_t i = 0; i < members_.size(); ++i) {
    before.clear();
    upstream_(members_[i].flow, link, before);
    port_of.push_back(before.empty() ? -1 : before.back());
    ports[port_of.back()] += queue.coming[i].bytes;
  }
  std::vector<std::pair<double, std::int32_t>> by_need;
  for (const auto& [port, sent] : ports) {
    const double most = port < 0 ? sent : std::min(sent, rates_.capacity(port));
    by_need.emplace_back(most, port);
  }
  std::ranges::sort(by_need);
  double left = queue.leaving;
  for (std::size_t i = 0; i < by_need.size(); ++i) {
    const double part = std::min(by_need[i].first, left / static_cast<double>(by_need.size() - i));
    left -= part;
    double& sent = ports[by_need[i].second];
    sent = sent > 0 ? part / sent : 1;  // from here on: the part that goes through
  }
  queue.pausing = true;
  queue.arriving = 0;
  for (std::size_t i = 0; i < members_.size(); ++i) {
    Layers::Part& coming = queue.coming[i];
    coming.bytes *= ports[port_of[i]];
    queue.arriving += coming.bytes;
    if (coming.bytes > 0) queue.caps[coming.flow] = coming.bytes / members_[i].weight;
  }
  hold_victims(link, queue);
  for (const Member& member : members_) look_at_others(*machines_[member.flow], link);
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
    if (const auto cap = queue.caps.find(member.flow); cap != queue.caps.end())
      waiting.push_back({member.flow, link, cap->second / sends(member.flow)});
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
        if (held(flow, link) != nullptr) return;  // brings nothing now
        hold({flow, 0}, link);
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
  for (const std::int32_t flow : victims) {
    look_at_others(*machines_[flow], link);
    if (held(flow, link)->weight > 0) continue;
    let_go(flow, link);
    set_limit(flow);
  }
}

}  // namespace trainyard
