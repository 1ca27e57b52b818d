#include "network_models/flow/max_min.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "core/random.h"

namespace trainyard {
namespace {

constexpr double kUnlimited = MaxMin::kUnlimited;

// Randoms by name and index.
class Randoms {
 public:
  explicit Randoms(std::uint64_t seed) : key_(random_key(seed, "max-min tests")) {}
  int below(int n) { return static_cast<int>(philox(key_, next_++)[0] % static_cast<unsigned>(n)); }
  double uniform() { return to_uniform(philox(key_, next_++)[0]); }

 private:
  PhiloxKey key_;
  std::uint64_t next_ = 0;
};

struct TextbookFlow {
  std::vector<MaxMin::Use> uses;
  double limit = kUnlimited, rate = 0;
  bool alive = true, fixed = false;
};

// Water-filling as textbooks have it (Bertsekas and Gallager, Data Networks, section 6.5.2): raise
// all rates alike; whenever a link is full or a limit reached, fix the flows concerned.
void textbook(const std::vector<double>& capacity, std::vector<TextbookFlow>& flows) {
  for (TextbookFlow& flow : flows) flow.fixed = !flow.alive;
  for (;;) {
    std::vector<double> left = capacity, weight(capacity.size(), 0.0);
    double level = kUnlimited;
    for (const TextbookFlow& flow : flows) {
      if (!flow.alive) continue;
      for (const MaxMin::Use& use : flow.uses)
        (flow.fixed ? left : weight)[use.link] += (flow.fixed ? -flow.rate : 1) * use.weight;
      if (!flow.fixed) level = std::min(level, flow.limit);
    }
    for (std::size_t link = 0; link < capacity.size(); ++link)
      if (weight[link] > 0) level = std::min(level, std::max(0.0, left[link]) / weight[link]);
    if (level == kUnlimited) return;
    for (TextbookFlow& flow : flows) {
      if (flow.fixed) continue;
      const bool full = std::ranges::any_of(flow.uses, [&](const MaxMin::Use& use) {
        return std::max(0.0, left[use.link]) / weight[use.link] <= level * (1 + 1e-13);
      });
      if (!full && flow.limit > level) continue;
      flow.rate = level;
      flow.fixed = true;
    }
  }
}

// A small network that changes at random, solved both ways.
class RandomNetwork {
 public:
  // One in fifty is large, so that its flows cross dozens of links.
  explicit RandomNetwork(std::uint64_t seed)
      : RandomNetwork(seed, seed % 50 == 0 ? 150 : 2 + static_cast<int>(seed % 9), 0) {}

  // The first `crowds` links are narrow, and nine in ten flows go over one of them and one or two
  // of the others.
  RandomNetwork(std::uint64_t seed, int links, int crowds)
      : draws_(seed), capacity_(links), crowds_(crowds) {
    for (double& each : capacity_) each = 1 + 9 * draws_.uniform();
    for (int i = 0; i < crowds; ++i) capacity_[i] = 1;
    solver_ = MaxMin(capacity_);
  }

  void change() {
    switch (draws_.below(flows_.empty() ? 1 : 5)) {
      case 1:
        return remove();
      case 2: {
        const int link = draws_.below(static_cast<int>(capacity_.size()));
        capacity_[link] = draws_.below(5) == 0 ? 0 : 1 + 9 * draws_.uniform();
        return solver_.set_capacity(link, capacity_[link]);
      }
      case 3: {
        const int flow = draws_.below(static_cast<int>(flows_.size()));
        if (!flows_[flow].alive) return;
        flows_[flow].limit = 3 * draws_.uniform();
        return solver_.set_limit(number_[flow], flows_[flow].limit);
      }
      default:
        return add();
    }
  }

  void crowd() {
    TextbookFlow flow;
    flow.uses.push_back({draws_.below(crowds_), 2});
    const int others = static_cast<int>(capacity_.size()) - crowds_;
    const int first = draws_.below(others);
    flow.uses.push_back({crowds_ + first, draws_.below(5) == 0 ? 3.0 : 2.0});
    if (draws_.below(2) == 0) flow.uses.push_back({crowds_ + (first + 1) % others, 1});
    keep(flow);
  }

  void remove() {
    const int flow = draws_.below(static_cast<int>(flows_.size()));
    if (!flows_[flow].alive) return;
    flows_[flow].alive = false;
    solver_.remove(number_[flow]);
  }

  int bundled() const {
    int flows = 0;
    for (std::size_t i = 0; i < flows_.size(); ++i)
      if (flows_[i].alive && solver_.bundle(number_[i]) >= 0) ++flows;
    return flows;
  }

  // Largest difference between the solver's rates and the textbook's.
  double difference() {
    solver_.solve();
    textbook(capacity_, flows_);
    double most = 0;
    for (std::size_t i = 0; i < flows_.size(); ++i)
      if (flows_[i].alive)
        most = std::max(most, std::abs(solver_.rate(number_[i]) - flows_[i].rate));
    return most;
  }

 private:
  void add() {
    TextbookFlow flow;
    for (std::int32_t link = 0; link < static_cast<std::int32_t>(capacity_.size()); ++link)
      if (draws_.below(3) == 0) flow.uses.push_back({link, 1.0 + draws_.below(3)});
    if (flow.uses.empty() || draws_.below(3) == 0) flow.limit = 3 * draws_.uniform();
    keep(flow);
  }

  void keep(const TextbookFlow& flow) {
    flows_.push_back(flow);
    number_.push_back(solver_.add(flow.uses, flow.limit));
  }

  Randoms draws_;
  std::vector<double> capacity_;
  int crowds_;
  std::vector<TextbookFlow> flows_;
  std::vector<std::int32_t> number_;
  MaxMin solver_{{}};
};

// 10,000 networks, each changed and solved 12 times.
TEST(MaxMinRates, AreTheTextbooksWhateverChanges) {
  for (std::uint64_t seed = 0; seed < 10'000; ++seed) {
    RandomNetwork network(seed);
    for (int step = 0; step < 12; ++step) {
      network.change();
      network.change();
      ASSERT_LT(network.difference(), 1e-9) << "network " << seed << " step " << step;
    }
  }
}

// Dozens of flows over two narrow links and six wide ones, which come, go and change one by
// one, so that bundles form, grow, shrink and fall apart beside flows that are solved alone.
TEST(MaxMinRates, AreTheTextbooksInCrowds) {
  int bundled = 0, changes = 0;
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    RandomNetwork network(seed, 8, 2);
    for (int step = 0; step < 80; ++step) {
      if (step % 8 == 7) network.change();
      if (step < 50) network.crowd();
      if (step % 3 == 0 || step >= 50) network.remove();
      if (step % 2 == 0) continue;  // changes of one moment are solved together
      ASSERT_LT(network.difference(), 1e-9) << "network " << seed << " step " << step;
      bundled += network.bundled();
      ++changes;
    }
  }
  EXPECT_GT(bundled, 5 * changes);  // it was about them
}

// Three links of 1, 2 and 1: one flow over all, one on each (Bertsekas and Gallager, figure 6.10's
// kind). The long one and those on the narrow links get 1/2, the wide link's own flow 3/2.
TEST(MaxMinRates, OfAParkingLot) {
  MaxMin solver({1, 2, 1});
  const std::int32_t all = solver.add({{0}, {1}, {2}});
  const std::int32_t first = solver.add({{0}}), wide = solver.add({{1}});
  solver.add({{2}});
  solver.solve();
  EXPECT_DOUBLE_EQ(solver.rate(all), 0.5);
  EXPECT_DOUBLE_EQ(solver.rate(first), 0.5);
  EXPECT_DOUBLE_EQ(solver.rate(wide), 1.5);
  EXPECT_EQ(solver.bottleneck(wide), 1);
}

// One of many flows into one link ends: the others' bundle has another rate, and no flow is
// touched.
TEST(MaxMinRates, OfAnIncastChangeAsOne) {
  constexpr std::int32_t kFlows = 100;
  MaxMin solver(std::vector<double>(kFlows + 1, 10.0));
  for (std::int32_t i = 1; i <= kFlows; ++i) solver.add({{0}, {i}});
  solver.solve();
  ASSERT_EQ(solver.moved().size(), static_cast<std::size_t>(kFlows));
  EXPECT_DOUBLE_EQ(solver.rate(7), 0.1);
  solver.remove(3);
  EXPECT_EQ(solver.solve().size(), 0u);
  ASSERT_EQ(solver.changed_bundles().size(), 1u);
  EXPECT_EQ(solver.changed_bundles()[0], 0);
  EXPECT_DOUBLE_EQ(solver.rate(7), 10.0 / 99);
  EXPECT_EQ(solver.bottleneck(7), 0);
}

// Two flows that others hold to all that a link carries: one may have more before the other has
// less. Left to itself the link shares again.
TEST(MaxMinRates, AreTheirLimitsOverARuledLink) {
  MaxMin solver({10.0});
  const std::int32_t a = solver.add({{0}}, 8), b = solver.add({{0}}, 8);
  solver.solve();
  EXPECT_DOUBLE_EQ(solver.rate(a), 5);
  solver.set_ruled(0, true);
  solver.set_limit(a, 7);
  solver.solve();
  EXPECT_DOUBLE_EQ(solver.rate(a), 7);
  EXPECT_EQ(solver.bottleneck(a), -1);
  solver.set_limit(b, 3);
  EXPECT_EQ(solver.solve().size(), 1u);
  EXPECT_DOUBLE_EQ(solver.rate(b), 3);
  solver.set_limit(b, 8);
  solver.set_ruled(0, false);
  solver.solve();
  EXPECT_DOUBLE_EQ(solver.rate(a), 5);
  EXPECT_DOUBLE_EQ(solver.rate(b), 5);
}

// A change is solved where it reaches: of 1,000 pairs that share a link, one pair changes.
TEST(MaxMinRates, ChangeOnlyWhereAChangeReaches) {
  MaxMin solver(std::vector<double>(1000, 1.0));
  for (std::int32_t link = 0; link < 1000; ++link) solver.add({{link}}), solver.add({{link}});
  solver.solve();
  solver.remove(0);
  ASSERT_EQ(solver.solve().size(), 1u);
  EXPECT_EQ(solver.solve().size(), 0u);
  EXPECT_DOUBLE_EQ(solver.rate(1), 1);
}

}  // namespace
}  // namespace trainyard
