#include "network_models/flow/max_min.h"

#include <algorithm>
#include <cassert>
#include <functional>

#include "core/error.h"

namespace trainyard {
namespace {

// Relative difference below which two rates, or a load and a capacity, are the same.
constexpr double kSame = 1e-11;

bool above(double a, double b) { return a > b + kSame * b; }

}  // namespace

MaxMin::MaxMin(std::vector<double> capacities) : links_(capacities.size()) {
  for (std::size_t i = 0; i < links_.size(); ++i) links_[i].capacity = capacities[i];
}

void MaxMin::ask(std::int32_t flow) {
  if (std::exchange(flows_[flow].pending, true)) return;
  pending_.push_back(flow);
}

std::int32_t MaxMin::add(std::vector<Use> uses, double limit) {
  std::int32_t id = 0;
  if (free_.empty()) {
    id = static_cast<std::int32_t>(flows_.size());
    flows_.emplace_back();
  } else {
    id = free_.back();
    free_.pop_back();
  }
  Flow& flow = flows_[id];
  flow = {};
  flow.uses = std::move(uses);
  flow.limit = limit;
  flow.alive = true;
  for (std::int32_t i = 0; i < static_cast<std::int32_t>(flow.uses.size()); ++i) {
    std::vector<Member>& members = links_[flow.uses[i].link].members;
    flow.places.push_back(static_cast<std::int32_t>(members.size()));
    members.push_back({id, i});
  }
  ask(id);
  return id;
}

void MaxMin::remove(std::int32_t id) {
  Flow& flow = flows_[id];
  check(flow.alive, "flow {} was removed before", id);
  if (flow.bottleneck >= 0) --links_[flow.bottleneck].bound;
  for (std::size_t i = 0; i < flow.uses.size(); ++i) {
    Link& link = links_[flow.uses[i].link];
    const Member last = link.members.back();
    link.members[flow.places[i]] = last;
    flows_[last.flow].places[last.use] = flow.places[i];
    link.members.pop_back();
    link.load -= flow.rate * flow.uses[i].weight;
    if (link.members.empty()) link.load = 0;
    if (link.bound == 0) continue;
    for (const Member& member : link.members)
      if (flows_[member.flow].bottleneck == flow.uses[i].link) ask(member.flow);
  }
  flow.alive = flow.pending = false;
  free_.push_back(id);
}

void MaxMin::set_limit(std::int32_t flow, double limit) {
  if (flows_[flow].limit == limit) return;
  flows_[flow].limit = limit;
  ask(flow);
}

void MaxMin::set_capacity(std::int32_t id, double capacity) {
  Link& link = links_[id];
  link.capacity = capacity;
  for (const Member& member : link.members)
    if (link.load > capacity || flows_[member.flow].bottleneck == id) ask(member.flow);
}

// A flow that fills no link but those it has to itself, and frees nothing that others wait for,
// changes nobody else's rate.
bool MaxMin::fits_beside_others(std::int32_t id) {
  Flow& flow = flows_[id];
  touch(flow);
  if (flow.own_limit == kUnlimited) return false;
  const double more = flow.own_limit - flow.rate;
  for (const Use& use : flow.uses) {
    const Link& link = links_[use.link];
    if (link.members.size() == 1) continue;
    const std::int32_t others_bound = link.bound - (flow.bottleneck == use.link ? 1 : 0);
    if (others_bound > 0 || link.load + more * use.weight > link.capacity) return false;
  }
  flow.next_rate = flow.own_limit;
  return true;
}

// Sets what the flow is limited to by itself: its limit and links that nobody else uses.
void MaxMin::touch(Flow& flow) {
  flow.own_limit = flow.limit;
  flow.next_bottleneck = -1;
  for (const Use& use : flow.uses) {
    const Link& link = links_[use.link];
    if (link.members.size() > 1 || link.capacity >= flow.own_limit * use.weight) continue;
    flow.own_limit = link.capacity / use.weight;
    flow.next_bottleneck = use.link;
  }
}

void MaxMin::affect(std::int32_t flow) {
  if (std::exchange(flows_[flow].affected, true)) return;
  affected_.push_back(flow);
}

std::span<const std::int32_t> MaxMin::solve() {
  changed_.clear();
  affected_.clear();
  // Flows that fit beside others come first, so that they are background to the rest.
  for (const std::int32_t id : pending_) {
    if (!std::exchange(flows_[id].pending, false)) continue;
    if (fits_beside_others(id))
      commit(id);
    else
      affect(id);
  }
  pending_.clear();
  if (affected_.empty()) return changed_;
  do fill();
  while (widen());
  for (const std::int32_t id : affected_) commit(id);
  for (const std::int32_t id : touched_) add_up(links_[id]);  // no rounding errors pile up
  assert(fair());
  for (const std::int32_t id : affected_) flows_[id].affected = false;
  return changed_;
}

// What unaffected flows leave of a link, and who shares it.
void MaxMin::open(Link& link) {
  link.left = link.capacity;
  link.open_weight = 0;
  link.open = 0;
  for (const Member& member : link.members) {
    const Flow& flow = flows_[member.flow];
    if (!flow.affected) {
      link.left -= flow.rate * weight(member);
    } else {
      link.open_weight += weight(member);
      ++link.open;
    }
  }
  link.left = std::max(0.0, link.left);
}

// Progressive filling: all affected flows grow alike until one reaches its limit or one's link is
// full; that one stays, the others grow on.
void MaxMin::fill() {
  for (const std::int32_t id : touched_) links_[id].touched = false;
  touched_.clear();
  by_limit_ = affected_;
  for (const std::int32_t id : affected_) {
    Flow& flow = flows_[id];
    flow.filled = false;
    touch(flow);
    for (const Use& use : flow.uses) {
      Link& link = links_[use.link];
      if (link.members.size() == 1) continue;
      if (std::exchange(link.touched, true)) continue;
      touched_.push_back(use.link);
      open(link);
    }
  }
  std::ranges::sort(by_limit_, {}, [this](auto id) { return std::pair(flows_[id].own_limit, id); });
  levels_.clear();
  for (const std::int32_t id : touched_) {
    levels_.emplace_back(links_[id].left / links_[id].open_weight, id);
  }
  std::ranges::make_heap(levels_, std::greater());
  auto limited = by_limit_.begin();
  for (;;) {
    while (limited != by_limit_.end() && flows_[*limited].filled) ++limited;
    if (limited == by_limit_.end()) return;
    const double limit = flows_[*limited].own_limit;
    // A link's level only rises while flows are filled below it, so the heap is mended lazily.
    if (levels_.empty() || limit <= levels_.front().first) {
      fill_at(*limited, limit, flows_[*limited].next_bottleneck);
      continue;
    }
    std::ranges::pop_heap(levels_, std::greater());
    auto& [level, id] = levels_.back();
    const Link& link = links_[id];
    const double now = link.open > 0 ? link.left / link.open_weight : kUnlimited;
    if (link.open > 0 && now > level) {
      level = now;
      std::ranges::push_heap(levels_, std::greater());
      continue;
    }
    const std::int32_t full = id;
    const double rate = level;
    levels_.pop_back();
    if (link.open == 0) continue;
    for (const Member& member : link.members)
      if (flows_[member.flow].affected && !flows_[member.flow].filled)
        fill_at(member.flow, rate, full);
  }
}

void MaxMin::fill_at(std::int32_t id, double rate, std::int32_t bottleneck) {
  Flow& flow = flows_[id];
  check(rate < kUnlimited, "flow {} has neither a limit nor a link with one", id);
  flow.filled = true;
  flow.next_rate = rate;
  flow.next_bottleneck = bottleneck;
  for (const Use& use : flow.uses) {
    Link& link = links_[use.link];
    if (!link.touched) continue;
    link.left = std::max(0.0, link.left - rate * use.weight);
    link.open_weight -= use.weight;
    --link.open;
  }
}

// Adds the flows that the solution in the making leaves without a bottleneck, or that keep an
// affected one below them. True if there are any.
bool MaxMin::widen() {
  const std::size_t before = affected_.size();
  for (const std::int32_t link : touched_) widen_over(link);
  return affected_.size() > before;
}

void MaxMin::widen_over(std::int32_t id) {
  const Link& link = links_[id];
  double load = 0, fastest = 0, slowest_bound = kUnlimited;
  bool others_bound = false;
  for (const Member& member : link.members) {
    const Flow& flow = flows_[member.flow];
    const double rate = flow.affected ? flow.next_rate : flow.rate;
    load += rate * weight(member);
    fastest = std::max(fastest, rate);
    if (!flow.affected)
      others_bound = others_bound || flow.bottleneck == id;
    else if (flow.next_bottleneck == id)
      slowest_bound = std::min(slowest_bound, rate);
  }
  const bool full = !above(link.capacity, load);
  for (const Member& member : link.members) {
    const Flow& flow = flows_[member.flow];
    if (flow.affected) continue;
    const bool lost = others_bound && flow.bottleneck == id && (!full || above(fastest, flow.rate));
    if (lost || above(flow.rate, slowest_bound)) affect(member.flow);
  }
}

void MaxMin::commit(std::int32_t id) {
  Flow& flow = flows_[id];
  if (flow.bottleneck >= 0) --links_[flow.bottleneck].bound;
  flow.bottleneck = flow.next_bottleneck;
  if (flow.bottleneck >= 0) ++links_[flow.bottleneck].bound;
  if (flow.rate == flow.next_rate) return;
  for (const Use& use : flow.uses) {
    Link& link = links_[use.link];
    link.load = link.members.size() == 1 ? flow.next_rate * use.weight
                                         : link.load + (flow.next_rate - flow.rate) * use.weight;
  }
  flow.rate = flow.next_rate;
  changed_.push_back(id);
}

void MaxMin::add_up(Link& link) {
  link.load = 0;
  for (const Member& member : link.members) link.load += flows_[member.flow].rate * weight(member);
}

// Whether no touched link carries more than it can, and every affected flow is at its limit or has
// a full link on which none is faster.
bool MaxMin::fair() const {
  constexpr double kSlack = 1e-9;
  const auto full = [](const Link& link) { return link.load >= link.capacity * (1 - kSlack); };
  for (const std::int32_t id : touched_) {
    const Link& link = links_[id];
    if (link.load > link.capacity * (1 + kSlack)) return false;
  }
  return std::ranges::all_of(affected_, [&](std::int32_t id) {
    const Flow& flow = flows_[id];
    if (flow.bottleneck < 0) return flow.rate == flow.limit;
    const Link& link = links_[flow.bottleneck];
    const auto no_faster = [&](const Member& member) {
      return flows_[member.flow].rate <= flow.rate * (1 + kSlack);
    };
    return full(link) && std::ranges::all_of(link.members, no_faster);
  });
}

}  // namespace trainyard
