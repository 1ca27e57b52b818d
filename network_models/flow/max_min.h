#pragma once
#include <cstdint>
#include <limits>
#include <span>
#include <utility>
#include <vector>

namespace trainyard {

// Weighted max-min fair rates: no flow can be faster without slowing one that is no faster. A flow
// takes `weight` of a link for each unit of its rate; so weights also make a flow of several paths
// in step (each link as often as it is crossed).
//
// A change is solved only as far as it reaches: the flows it touches are filled up with all others
// as background; then every link they cross is checked for the condition above, and flows that
// break it join in, until none does. Links that could carry all that their flows may send at most
// hold nobody back and are left out of it; only the others are `tight`.
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

  // The flows, old and new, that now have another rate.
  std::span<const std::int32_t> solve();

  double rate(std::int32_t flow) const { return flows_[flow].rate; }
  double load(std::int32_t link) const;
  double capacity(std::int32_t link) const { return links_[link].capacity; }
  template <class Visit>
  void each_use(std::int32_t flow, Visit visit) const {
    for (const Hop& hop : flows_[flow].hops) visit(static_cast<const Use&>(hop));
  }
  // Link that keeps the flow from being faster; -1: its own limit.
  std::int32_t bottleneck(std::int32_t flow) const { return flows_[flow].bottleneck; }
  template <class Visit>
  void each_use_of(std::int32_t link, Visit visit) const {
    for (const Member& member : links_[link].members) visit(member.flow, weight(member));
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
    double next_rate = 0;  // of the solution in the making
    std::int32_t next_bottleneck = -1;
    bool alive = false, pending = false, affected = false, filled = false;

    std::int32_t own_bottleneck() const { return limit <= narrow ? -1 : narrow_link; }
  };
  struct Member {
    std::int32_t flow, hop;
  };
  struct alignas(64) Link {         // a cache line
    double capacity = 0, most = 0;  // most: what its flows may send
    double load = 0;                // while it is tight
    std::vector<Member> members;
    std::int32_t bound = 0;  // flows it is the bottleneck of
    bool tight = false;
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

  double weight(const Member& member) const { return flows_[member.flow].hops[member.hop].weight; }
  // In max_min.cpp.
  void ask(std::int32_t flow);
  void ask_bound(std::int32_t link);
  void narrow(Flow& flow) const;
  void limit_alone(Flow& flow);
  void count(Flow& flow);
  void tighten_or_loosen(std::int32_t link);
  void add_up(Link& link);
  static void leave_tight(Flow& flow, std::int32_t hop);

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
  std::vector<Share> shares_;  // by link
  std::int64_t solves_ = 0;
  std::size_t unfilled_ = 0;  // affected flows
  std::vector<std::int32_t> free_, pending_, affected_, touched_, changed_;
  std::vector<std::int32_t> by_limit_;                   // scratch of fill(): a heap
  std::vector<std::pair<double, std::int32_t>> levels_;  // level a link fills at, link
};

}  // namespace trainyard
