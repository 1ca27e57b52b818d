#include <algorithm>
#include <vector>

#include "network_models/flow/max_min.h"

namespace trainyard {
namespace {

// So many flows make a crowd or a bundle; fewer are solved as fast one by one.
constexpr std::size_t kFew = 8;
// Flows of more links (rings in step) stay out of crowds.
constexpr std::size_t kLong = 32;

}  // namespace

std::int32_t MaxMin::bundle(std::int32_t id) const {
  const std::int32_t bundle = flows_[id].bundle;
  return bundle < 0 ? -1 : flows_[bundle].hops.front().link;
}

std::int32_t MaxMin::bottleneck(std::int32_t id) const {
  const Flow& flow = flows_[id];
  if (flow.bundle < 0) return flow.bottleneck;
  const std::int32_t shared = flows_[flow.bundle].bottleneck;
  return shared >= 0 ? shared : flow.own_bottleneck();
}

// Whether the flow takes no more of any link than of this one, its narrowest: then what a crowd of
// such flows sends over another link is never more than this one's capacity.
bool MaxMin::may_crowd(const Flow& flow, const Hop& at) const {
  if (flow.limit < kUnlimited || flow.crowd >= 0 || flow.hops.size() > kLong) return false;
  const double capacity = links_[at.link].capacity;
  return capacity > 0 && capacity < kUnlimited && capacity / at.weight == flow.narrow &&
         std::ranges::all_of(flow.hops, [&](const Hop& hop) { return hop.weight <= at.weight; });
}

// A new flow joins the crowd of the link that most share with it, or makes it one.
void MaxMin::find_crowd(std::int32_t id) {
  const Flow& flow = flows_[id];
  if (flow.limit < kUnlimited) return;
  const Hop* best = nullptr;
  std::size_t most = kFew - 1;
  for (const Hop& hop : flow.hops) {
    std::size_t flows = links_[hop.link].members.size();
    if (!crowds_.empty())
      if (const auto found = crowds_.find(hop.link); found != crowds_.end())
        flows = std::max(flows, most + static_cast<std::size_t>(found->second));
    if (flows <= most || !may_crowd(flow, hop)) continue;
    most = flows;
    best = &hop;
  }
  if (best == nullptr) return;
  const std::int32_t link = best->link;
  if (!crowds_.contains(link)) {
    const std::vector<Member> members(links_[link].members.begin(), links_[link].members.end());
    for (const Member& member : members)
      if (may_crowd(flows_[member.flow], flows_[member.flow].hops[member.hop]))
        join_crowd(member.flow, link);
  } else {
    join_crowd(id, link);
  }
}

void MaxMin::join_crowd(std::int32_t id, std::int32_t crowd) {
  Flow& flow = flows_[id];
  for (const Hop& hop : flow.hops)
    if (hop.link != crowd) count_more(flow, hop, -flow.counted, 0);
  flow.crowd = crowd;
  ++crowds_[crowd];
  for (const Hop& hop : flow.hops) {
    if (hop.link == crowd) continue;
    count_more(flow, hop, flow.counted, 1);
    tighten_or_loosen(hop.link);
  }
}

void MaxMin::leave_crowd(std::int32_t id) {
  Flow& flow = flows_[id];
  const std::int32_t crowd = flow.crowd;
  if (crowd < 0) return;
  for (const Hop& hop : flow.hops)
    if (hop.link != crowd) count_more(flow, hop, -flow.counted, -1);
  flow.crowd = -1;
  if (--crowds_[crowd] == 0) crowds_.erase(crowd);
  for (const Hop& hop : flow.hops) {
    if (hop.link == crowd) continue;
    count_more(flow, hop, flow.counted, 0);
    tighten_or_loosen(hop.link);
  }
}

// The flow may send `more` over one of its links than the link knows of; `flows` more of its crowd
// do.
void MaxMin::count_more(const Flow& flow, const Hop& hop, double more, std::int32_t flows) {
  Link& link = links_[hop.link];
  if (flow.crowd < 0 || flow.crowd == hop.link) {
    link.most += more * hop.weight;
    return;
  }
  const double through = links_[flow.crowd].capacity;
  const std::int64_t key = std::int64_t{flow.crowd} << 32 | hop.link;
  Part& part = parts_[key];
  const double before = std::min(part.most, through);
  part.most += more * hop.weight;
  part.flows += flows;
  const bool gone = part.flows == 0;
  link.crowds += (gone ? 0 : std::min(part.most, through)) - before;
  if (gone) parts_.erase(key);
}

// A flow that has just been solved, and waits for one link alone, moves with the others there.
void MaxMin::join_bundle(std::int32_t id) {
  if (flows_[id].is_bundle || flows_[id].limit < kUnlimited || flows_[id].tight.size() != 1) return;
  const std::int32_t number = flows_[id].tight.front(), at = flows_[id].hops[number].link;
  if (flows_[id].bottleneck != at) return;
  Link& link = links_[at];
  if (!bundles_.contains(at)) {
    if (link.members.size() < kFew) return;
    start_bundle(flows_[id], at);
  }
  Bundle& bundle = bundles_.at(at);
  Flow &flow = flows_[id], &all = flows_[bundle.flow];
  if (all.own != flow.own || all.rate != flow.rate || all.bottleneck != at) return;
  Hop& hop = flow.hops[number];
  take_out(link.members, hop.place);
  hop.place = static_cast<std::int32_t>(bundle.members.size());
  bundle.members.push_back({id, number});
  all.hops.front().weight += hop.weight;
  --link.bound;
  flow.bundle = bundle.flow;
  moving_.push_back(id);
}

// A flow of no weight yet that stands for some as fast as `like`.
void MaxMin::start_bundle(const Flow& like, std::int32_t at) {
  const double rate = like.rate, own = like.own;
  const std::int32_t id = number_flow();  // `like` may move
  bundles_[at].flow = id;
  Flow& flow = flows_[id];
  Link& link = links_[at];
  flow.is_bundle = true;
  flow.rate = rate;
  flow.limit = flow.own = own;
  flow.narrow = kUnlimited;
  flow.narrow_link = -1;
  flow.bottleneck = at;
  ++link.bound;
  flow.hops.push_back({{at, 0}, static_cast<std::int32_t>(link.members.size()), 0});
  flow.tight.push_back(0);
  link.members.push_back({id, 0});
  changed_bundles_.push_back(at);
}

void MaxMin::leave_bundle(std::int32_t id) {
  Flow& flow = flows_[id];
  if (flow.bundle < 0) return;
  Flow& all = flows_[flow.bundle];
  const std::int32_t number = flow.tight.front(), at = flow.hops[number].link;
  Hop& hop = flow.hops[number];
  Link& link = links_[at];
  Bundle& bundle = bundles_.at(at);
  flow.rate = all.rate;
  flow.bottleneck = bottleneck(id);
  flow.bundle = -1;
  if (flow.bottleneck >= 0) ++links_[flow.bottleneck].bound;
  take_out(bundle.members, hop.place);
  hop.place = static_cast<std::int32_t>(link.members.size());
  link.members.push_back({id, number});
  all.hops.front().weight -= hop.weight;
  moving_.push_back(id);
  if (all.pending) ask(id);
  if (!bundle.members.empty()) return;
  if (all.bottleneck >= 0) --links_[all.bottleneck].bound;
  take_out(link.members, all.hops.front().place);
  all.alive = all.pending = false;
  free_.push_back(bundle.flow);
  bundles_.erase(at);
}

void MaxMin::end_bundle(std::int32_t at) {
  while (bundles_.contains(at)) leave_bundle(bundles_.at(at).members.back().flow);
}

// The flows over a link are on their own again.
void MaxMin::scatter(std::int32_t id) {
  std::vector<std::int32_t> flows;
  each_flow_of(id, [&](const Member& member) { flows.push_back(member.flow); });
  for (const std::int32_t flow : flows) {
    leave_bundle(flow);
    leave_crowd(flow);
  }
}

}  // namespace trainyard
