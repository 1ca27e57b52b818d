#include "network_models/flow/max_min.h"

#include <algorithm>
#include <utility>

#include "core/error.h"

namespace trainyard {
namespace {

// A link is tight from this part above its capacity on: sums are rounded.
constexpr double kRounding = 1e-11;
// Flows of more links than that (rings in step) tell them of a higher limit only, not of a lower.
constexpr std::size_t kMany = 32;

}  // namespace

MaxMin::MaxMin(std::vector<double> capacities)
    : links_(capacities.size()), shares_(capacities.size()) {
  for (std::size_t i = 0; i < links_.size(); ++i) links_[i].capacity = capacities[i];
}

void MaxMin::ask(std::int32_t flow) {
  if (std::exchange(flows_[flow].pending, true)) return;
  pending_.push_back(flow);
}

void MaxMin::ask_bound(std::int32_t id) {
  const Link& link = links_[id];
  if (link.bound == 0) return;
  for (const Member& member : link.members)
    if (flows_[member.flow].bottleneck == id) ask(member.flow);
}

// A flow that has nothing yet; its number may have been another's.
std::int32_t MaxMin::number_flow() {
  std::int32_t id = 0;
  if (free_.empty()) {
    id = static_cast<std::int32_t>(flows_.size());
    flows_.emplace_back();
  } else {
    id = free_.back();
    free_.pop_back();
  }
  Flow& flow = flows_[id];
  flow.rate = flow.counted = 0;
  flow.bottleneck = flow.crowd = flow.bundle = -1;
  flow.alive = true;
  flow.is_bundle = false;
  flow.hops.clear();
  flow.tight.clear();
  return id;
}

std::int32_t MaxMin::add(const std::vector<Use>& uses, double limit) {
  const std::int32_t id = number_flow();
  Flow& flow = flows_[id];
  flow.limit = limit;
  for (const Use& use : uses) {
    const auto number = static_cast<std::int32_t>(flow.hops.size());
    Link& link = links_[use.link];
    flow.hops.push_back({use, static_cast<std::int32_t>(link.members.size()),
                         static_cast<std::int32_t>(flow.tight.size())});
    if (link.tight) flow.tight.push_back(number);
    link.members.push_back({id, number});
  }
  narrow(flow);
  find_crowd(id);
  limit_alone(flow);
  ask(id);
  return id;
}

void MaxMin::remove(std::int32_t id) {
  Flow& flow = flows_[id];
  check(flow.alive, "flow {} was removed before", id);
  leave_bundle(id);
  if (flow.bottleneck >= 0) --links_[flow.bottleneck].bound;
  for (const Hop& hop : flow.hops) {
    Link& link = links_[hop.link];
    take_out(link.members, hop.place);
    count_more(flow, hop, -flow.counted, -1);
    if (link.members.empty()) link.most = link.crowds = 0;
    if (!link.tight) continue;
    link.load -= flow.rate * hop.weight;
    tighten_or_loosen(hop.link);
    ask_bound(hop.link);
  }
  if (flow.crowd >= 0 && --crowds_[flow.crowd] == 0) crowds_.erase(flow.crowd);
  flow.alive = flow.pending = false;
  free_.push_back(id);
}

void MaxMin::take_out(MemberList& members, std::int32_t place) {
  const Member last = members.back();
  members[place] = last;
  flows_[last.flow].hops[last.hop].place = place;
  members.pop_back();
}

void MaxMin::set_limit(std::int32_t id, double limit) {
  Flow& flow = flows_[id];
  if (flow.limit == limit) return;
  leave_bundle(id);
  leave_crowd(id);
  flow.limit = limit;
  limit_alone(flow);
  ask(id);
}

void MaxMin::set_capacity(std::int32_t id, double capacity) {
  scatter(id);
  Link& link = links_[id];
  link.capacity = capacity;
  for (const Member& member : link.members) {
    Flow& flow = flows_[member.flow];
    const double before = flow.own;
    narrow(flow);
    limit_alone(flow);
    if (flow.own != before || flow.bottleneck == id) ask(member.flow);
  }
  tighten_or_loosen(id);
  if (link.tight && link.load > capacity)
    for (const Member& member : link.members) ask(member.flow);
}

void MaxMin::set_ruled(std::int32_t id, bool ruled) {
  Link& link = links_[id];
  link.ruled = ruled;
  tighten_or_loosen(id);
  if (link.tight && link.load > link.capacity)
    for (const Member& member : link.members) ask(member.flow);
}

double MaxMin::load(std::int32_t id) const {
  double load = 0;
  each_use_of(id, [&](std::int32_t flow, double weight) { load += rate(flow) * weight; });
  return load;
}

void MaxMin::narrow(Flow& flow) const {
  flow.narrow = kUnlimited;
  flow.narrow_link = -1;
  for (const Hop& hop : flow.hops) {
    const double alone = links_[hop.link].capacity / hop.weight;
    if (alone >= flow.narrow) continue;
    flow.narrow = alone;
    flow.narrow_link = hop.link;
  }
}

// Tells the flow's links what it may send at most.
void MaxMin::limit_alone(Flow& flow) {
  flow.own = std::min(flow.limit, flow.narrow);
  if (flow.own == flow.counted || flow.own == kUnlimited) return;
  if (flow.own < flow.counted && flow.hops.size() > kMany) return;
  count(flow);
}

void MaxMin::count(Flow& flow) {
  const double more = flow.own - flow.counted;
  flow.counted = flow.own;
  for (const Hop& hop : flow.hops) {
    Link& link = links_[hop.link];
    count_more(flow, hop, more, 0);
    if (link.members.size() == 1 && link.crowds == 0) link.most = flow.own * hop.weight;
    tighten_or_loosen(hop.link);
  }
}

void MaxMin::tighten_or_loosen(std::int32_t id) {
  Link& link = links_[id];
  const bool tight = !link.ruled && link.most + link.crowds > link.capacity * (1 + kRounding);
  if (tight == link.tight) return;
  if (!tight) end_bundle(id);
  link.tight = tight;
  if (!tight) ask_bound(id);
  link.most = 0;  // no rounding errors pile up
  for (const Member& member : link.members) {
    if (tight) leave_bundle(member.flow);  // it may have to wait here too
    Flow& flow = flows_[member.flow];
    Hop& hop = flow.hops[member.hop];
    if (flow.crowd < 0 || flow.crowd == id) link.most += flow.counted * hop.weight;
    if (!tight) {
      leave_tight(flow, member.hop);
      continue;
    }
    hop.tight_place = static_cast<std::int32_t>(flow.tight.size());
    flow.tight.push_back(member.hop);
  }
  if (tight) add_up(link);
}

void MaxMin::leave_tight(Flow& flow, std::int32_t hop) {
  const std::int32_t place = flow.hops[hop].tight_place, last = flow.tight.back();
  flow.tight[place] = last;
  flow.hops[last].tight_place = place;
  flow.tight.pop_back();
}

void MaxMin::add_up(Link& link) {
  link.load = 0;
  for (const Member& member : link.members) link.load += flows_[member.flow].rate * weight(member);
}

}  // namespace trainyard
