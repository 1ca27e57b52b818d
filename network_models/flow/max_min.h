#pragma once
#include <cstdint>
#include <limits>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "network_models/flow/member_list.h"

namespace trainyard {

// Weighted max-min fair rates: no flow can be faster without slowing one that is no faster. A flow
// takes `weight` of a link for each unit of its rate; so weights also make a flow of several paths
// in step (each link as often as it is crossed).
//
// A change is solved only as far as it reaches: the flows it touches are filled up with all others
// as background; then every link they cross is checked for the condition above, and flows that
// break it join in, until none does. Links that could carry all that their flows may send at most
// hold nobody back and are left out of it; only the others are `tight`.
//
// Many flows without a limit that share one bottleneck, and wait for nothing else, are one flow to
// all this: a bundle, whose change costs as much as that of one flow. So that they wait for nothing
// else, what such a crowd asks of the links on the way counts as no more than its bottleneck lets
// through.
class MaxMin {
 public:
  static constexpr double kUnlimited = std::numeric_limits<double>::infinity();
  struct Use {
    std::int32_t link;
    double weight = 1;
  };

  // A capacity may be 0 or infinite.
  explicit MaxMin(std::vector<double> capacities);

  // Changes take effect together at the next solve(). Flow numbers are used again after remove().
  std::int32_t add(const std::vector<Use>& uses, double limit = kUnlimited);
  void remove(std::int32_t flow);
  void set_limit(std::int32_t flow, double limit);
  void set_capacity(std::int32_t link, double capacity);
  // While somebody rules a link, he sees to it by their limits that flows ask no more of it than it
  // carries; here it holds nobody back.
  void set_ruled(std::int32_t link, bool ruled);

  // The flows, old and new, that now have another rate, but for those that stay in a bundle.
  std::span<const std::int32_t> solve();

  // The link whose bundle a flow is part of since the last solve(); -1: none.
  std::int32_t bundle(std::int32_t flow) const;
  // Of the last solve(): links whose bundle has another rate, and flows that came into a bundle or
  // left it, some of which may have been removed since.
  double bundle_rate(std::int32_t link) const { return flows_[bundles_.at(link).flow].rate; }
  std::span<const std::int32_t> changed_bundles() const { return changed_bundles_; }
  std::span<const std::int32_t> moved() const { return moved_; }

  double rate(std::int32_t flow) const {
    const std::int32_t bundle = flows_[flow].bundle;
    return flows_[bundle < 0 ? flow : bundle].rate;
  }
  double load(std::int32_t link) const;
  double capacity(std::int32_t link) const { return links_[link].capacity; }
  template <class Visit>
  void each_use(std::int32_t flow, Visit visit) const {
    for (const Hop& hop : flows_[flow].hops) visit(static_cast<const Use&>(hop));
  }
  // Link that keeps the flow from being faster; -1: its own limit.
  std::int32_t bottleneck(std::int32_t flow) const;
  // Link that would, were the flow alone and without a limit.
  std::int32_t narrowest(std::int32_t flow) const { return flows_[flow].narrow_link; }
  template <class Visit>
  void each_use_of(std::int32_t link, Visit visit) const {
    each_flow_of(link, [&](const Member& member) { visit(member.flow, weight(member)); });
  }

 private:
  struct Hop : Use {
    std::int32_t place = 0;        // in members of the link
    std::int32_t tight_place = 0;  // in tight of the flow, while the link is
  };
  struct Flow {
    std::vector<Hop> hops;
    std::vector<std::int32_t> tight;  // hops over tight links
    double rate = 0, limit = kUnlimited;
    double narrow = kUnlimited;  // what its links allow it when it is alone
    double own = 0;              // the least of both
    double counted = 0;          // own as the links have counted it, or more
    std::int32_t narrow_link = -1, bottleneck = -1;
    std::int32_t crowd = -1;   // the link whose crowd it belongs to
    std::int32_t bundle = -1;  // the flow that stands for it and others
    double next_rate = 0;      // of the solution in the making
    std::int32_t next_bottleneck = -1;
    bool alive = false, pending = false, affected = false, filled = false;
    bool is_bundle = false;  // stands for others

    std::int32_t own_bottleneck() const { return limit <= narrow ? -1 : narrow_link; }
  };
  using Member = MemberList::Member;
  struct alignas(64) Link {  // a cache line
    double capacity = 0;
    double most = 0, crowds = 0;  // what its flows may send: its own and those of crowds elsewhere
    double load = 0;              // while it is tight
    MemberList members;           // without those in its bundle
    std::int32_t bound = 0;       // flows it is the bottleneck of
    bool tight = false, ruled = false;
  };
  // A link in the solution in the making, while touched.
  struct Share {
    double left = 0, open_weight = 0;  // what others leave; weight of affected flows to be filled
    double growth = 0;                 // if all affected flows got what they may send
    std::int32_t open = 0;             // affected flows to be filled
    std::int32_t others_bound = 0;     // unaffected flows that wait for it
    std::int64_t affected_full = 0, affected_bound = 0;  // number of the solve that last did
    bool touched = false;
  };

  struct Bundle {
    std::int32_t flow = -1;  // a member of its link, of all their weight
    MemberList members;
  };
  // The flows of a crowd that cross another link: what they may send, each for itself.
  struct Part {
    double most = 0;
    std::int32_t flows = 0;
  };

  double weight(const Member& member) const { return flows_[member.flow].hops[member.hop].weight; }
  // Those in bundles too, in place of the bundle.
  template <class Visit>
  void each_flow_of(std::int32_t link, Visit visit) const {
    for (const Member& member : links_[link].members)
      if (!flows_[member.flow].is_bundle) visit(member);
    if (bundles_.empty()) return;
    const auto found = bundles_.find(link);
    if (found == bundles_.end()) return;
    for (const Member& member : found->second.members) visit(member);
  }

  // In max_min.cpp.
  std::int32_t number_flow();
  void ask(std::int32_t flow);
  void ask_bound(std::int32_t link);
  void narrow(Flow& flow) const;
  void limit_alone(Flow& flow);
  void count(Flow& flow);
  void tighten_or_loosen(std::int32_t link);
  void add_up(Link& link);
  void take_out(MemberList& members, std::int32_t place);
  static void leave_tight(Flow& flow, std::int32_t hop);

  // In max_min_bundles.cpp.
  void find_crowd(std::int32_t flow);
  bool may_crowd(const Flow& flow, const Hop& at) const;
  void join_crowd(std::int32_t flow, std::int32_t link);
  void leave_crowd(std::int32_t flow);
  void count_more(const Flow& flow, const Hop& hop, double more, std::int32_t flows);
  void join_bundle(std::int32_t flow);
  void start_bundle(const Flow& flow, std::int32_t link);
  void leave_bundle(std::int32_t flow);
  void end_bundle(std::int32_t link);
  void scatter(std::int32_t link);

  // In max_min_solve.cpp.
  bool fits_beside_others(std::int32_t flow);
  void affect(std::int32_t flow);
  void affect_beside(const Flow& changing);
  void touch();
  void open(std::int32_t link);
  void fill();
  void fill_at(std::int32_t flow, double rate, std::int32_t bottleneck);
  bool widen();
  void widen_over(std::int32_t link);
  void commit(std::int32_t flow);
  bool fair() const;

  std::vector<Flow> flows_;
  std::vector<Link> links_;
  std::vector<Share> shares_;                              // by link
  std::unordered_map<std::int32_t, Bundle> bundles_;       // by link
  std::unordered_map<std::int32_t, std::int32_t> crowds_;  // flows, by link
  std::unordered_map<std::int64_t, Part> parts_;           // by crowd and link
  std::int64_t solves_ = 0;
  std::size_t unfilled_ = 0;  // affected flows
  std::vector<std::int32_t> free_, pending_, affected_, touched_, changed_;
  std::vector<std::int32_t> changed_bundles_, moved_, moving_;  // moving: since the last solve
  std::vector<std::int32_t> by_limit_;                          // scratch of fill(): a heap
  std::vector<std::pair<double, std::int32_t>> levels_;         // level a link fills at, link
};

}  // namespace trainyard
