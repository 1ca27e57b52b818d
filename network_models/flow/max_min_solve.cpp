#include <algorithm>
#include <cassert>
#include <functional>

#include "core/error.h"
#include "network_models/flow/max_min.h"

namespace trainyard {
namespace {

// Relative difference below which two rates, or a load and a capacity, are the same.
constexpr double kSame = 1e-11;

bool above(double a, double b) { return a > b + kSame * b; }

}  // namespace

// A flow that fills no tight link, and frees nothing that others wait for, changes nobody else's
// rate.
bool MaxMin::fits_beside_others(std::int32_t id) {
  Flow& flow = flows_[id];
  if (flow.own == kUnlimited) return false;
  const double more = flow.own - flow.rate;
  for (const std::int32_t number : flow.tight) {
    const Hop& hop = flow.hops[number];
    const Link& link = links_[hop.link];
    const std::int32_t others_bound = link.bound - (flow.bottleneck == hop.link ? 1 : 0);
    if (others_bound > 0 || link.load + more * hop.weight > link.capacity) return false;
  }
  flow.next_rate = flow.own;
  flow.next_bottleneck = flow.own_bottleneck();
  return true;
}

void MaxMin::affect(std::int32_t flow) {
  if (std::exchange(flows_[flow].affected, true)) return;
  affected_.push_back(flow);
}

// Flows that a change of this one will most likely change: they wait for a link of it, or are
// faster than a link's equal share where it wants more than is left. widen() finds the others.
void MaxMin::affect_beside(const Flow& changing) {
  for (const std::int32_t number : changing.tight) {
    const Hop& hop = changing.hops[number];
    const Link& link = links_[hop.link];
    const bool full = link.load + (changing.own - changing.rate) * hop.weight > link.capacity;
    if (!full && link.bound == 0) continue;
    Share& share = shares_[hop.link];
    std::int64_t& done = full ? share.affected_full : share.affected_bound;
    if (std::exchange(done, solves_) == solves_) continue;  // for another flow that changes
    double all = 0;
    for (const Member& member : link.members) all += weight(member);
    for (const Member& member : link.members) {
      const Flow& flow = flows_[member.flow];
      if (flow.bottleneck == hop.link || (full && flow.rate * all > link.capacity))
        affect(member.flow);
    }
  }
}

std::span<const std::int32_t> MaxMin::solve() {
  ++solves_;
  changed_.clear();
  changed_bundles_.clear();
  moved_.clear();
  affected_.clear();
  // Flows that fit beside others come first, so that they are background to the rest.
  for (const std::int32_t id : pending_) {
    if (!std::exchange(flows_[id].pending, false)) continue;
    if (fits_beside_others(id)) {
      commit(id);
    } else {
      affect(id);
      affect_beside(flows_[id]);
    }
  }
  pending_.clear();
  if (!affected_.empty()) {
    do fill();
    while (widen());
    for (const std::int32_t id : affected_) commit(id);
    for (const std::int32_t id : touched_) add_up(links_[id]);  // no rounding errors pile up
    assert(fair());
    for (const std::int32_t id : affected_) {
      flows_[id].affected = false;
      join_bundle(id);
    }
  }
  std::swap(moved_, moving_);
  return changed_;
}

// Finds the links that the solution in the making may fill, or where it frees what others wait for.
void MaxMin::touch() {
  for (const std::int32_t id : touched_) shares_[id].touched = false;
  touched_.clear();
  for (const std::int32_t id : affected_) {
    const Flow& flow = flows_[id];
    for (const std::int32_t number : flow.tight) {
      const Hop& hop = flow.hops[number];
      Share& share = shares_[hop.link];
      if (!std::exchange(share.touched, true)) {
        touched_.push_back(hop.link);
        share.growth = 0;
        share.others_bound = links_[hop.link].bound;
      }
      share.growth += (flow.own - flow.rate) * hop.weight;
      if (flow.bottleneck == hop.link) --share.others_bound;
    }
  }
  std::erase_if(touched_, [this](std::int32_t id) {
    const Link& link = links_[id];
    Share& share = shares_[id];
    share.touched = link.load + share.growth > link.capacity || share.others_bound > 0;
    if (share.touched) open(id);
    return !share.touched;
  });
}

// What unaffected flows leave of a link, and who shares it.
void MaxMin::open(std::int32_t id) {
  const Link& link = links_[id];
  Share& share = shares_[id];
  share.left = link.capacity;
  share.open_weight = 0;
  share.open = 0;
  for (const Member& member : link.members) {
    const Flow& flow = flows_[member.flow];
    if (!flow.affected) {
      share.left -= flow.rate * weight(member);
    } else {
      share.open_weight += weight(member);
      ++share.open;
    }
  }
  share.left = std::max(0.0, share.left);
}

// Progressive filling: all affected flows grow alike until one reaches its limit or one's link is
// full; that one stays, the others grow on.
void MaxMin::fill() {
  by_limit_ = affected_;
  for (const std::int32_t id : affected_) flows_[id].filled = false;
  touch();
  const auto own = [this](std::int32_t id) { return std::pair(flows_[id].own, id); };
  std::ranges::make_heap(by_limit_, std::greater(), own);
  levels_.clear();
  for (const std::int32_t id : touched_) {
    levels_.emplace_back(shares_[id].left / shares_[id].open_weight, id);
  }
  std::ranges::make_heap(levels_, std::greater());
  unfilled_ = affected_.size();
  while (unfilled_ > 0) {
    while (flows_[by_limit_.front()].filled) {
      std::ranges::pop_heap(by_limit_, std::greater(), own);
      by_limit_.pop_back();
    }
    const std::int32_t limited = by_limit_.front();
    const double limit = flows_[limited].own;
    // A link's level only rises while flows are filled below it, so the heap is mended lazily.
    if (levels_.empty() || limit <= levels_.front().first) {
      fill_at(limited, limit, flows_[limited].own_bottleneck());
      continue;
    }
    std::ranges::pop_heap(levels_, std::greater());
    auto& [level, id] = levels_.back();
    const Share& share = shares_[id];
    const double now = share.open > 0 ? share.left / share.open_weight : kUnlimited;
    if (share.open > 0 && now > level) {
      level = now;
      std::ranges::push_heap(levels_, std::greater());
      continue;
    }
    const std::int32_t full = id;
    const double rate = level;
    levels_.pop_back();
    if (share.open == 0) continue;
    for (const Member& member : links_[full].members)
      if (flows_[member.flow].affected && !flows_[member.flow].filled)
        fill_at(member.flow, rate, full);
  }
}

void MaxMin::fill_at(std::int32_t id, double rate, std::int32_t bottleneck) {
  Flow& flow = flows_[id];
  check(rate < kUnlimited, "flow {} has neither a limit nor a link with one", id);
  flow.filled = true;
  --unfilled_;
  flow.next_rate = rate;
  flow.next_bottleneck = bottleneck;
  for (const std::int32_t number : flow.tight) {
    const Hop& hop = flow.hops[number];
    Share& share = shares_[hop.link];
    if (!share.touched) continue;
    share.left = std::max(0.0, share.left - rate * hop.weight);
    share.open_weight -= hop.weight;
    --share.open;
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
  for (const std::int32_t number : flow.tight) {
    const Hop& hop = flow.hops[number];
    links_[hop.link].load += (flow.next_rate - flow.rate) * hop.weight;
  }
  flow.rate = flow.next_rate;
  if (flow.is_bundle)
    changed_bundles_.push_back(flow.hops.front().link);
  else
    changed_.push_back(id);
}

// Whether no link of a flow that was solved carries more than it can, and every affected flow is at
// its limit or has a full link on which none is faster.
bool MaxMin::fair() const {
  constexpr double kSlack = 1e-9;
  const auto overloaded = [&](std::int32_t flow) {
    return std::ranges::any_of(flows_[flow].hops, [&](const Hop& hop) {
      return load(hop.link) > links_[hop.link].capacity * (1 + kSlack);
    });
  };
  if (std::ranges::any_of(changed_, overloaded)) return false;
  return std::ranges::all_of(affected_, [&](std::int32_t id) {
    const Flow& flow = flows_[id];
    if (flow.bottleneck < 0) return flow.rate == flow.limit;
    const Link& link = links_[flow.bottleneck];
    const auto no_faster = [&](const Member& member) {
      return flows_[member.flow].rate <= flow.rate * (1 + kSlack);
    };
    return load(flow.bottleneck) >= link.capacity * (1 - kSlack) &&
           std::ranges::all_of(link.members, no_faster);
  });
}

}  // namespace trainyard
