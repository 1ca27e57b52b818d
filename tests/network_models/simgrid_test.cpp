#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <string>
#include <vector>

#include "core/error.h"
#include "core/random.h"
#include "network_models/network_models.h"
#include "network_models/simgrid/simgrid_model.h"

namespace trainyard {
namespace {

// Nodes of one GPU below ToRs of 8, two ToRs a pod; uplinks of half a card's rate, and half as
// many into the core: flows meet everywhere.
Job crowded_job(std::int32_t hosts, std::string model, std::uint64_t seed) {
  Job job;
  Cluster& cluster = job.cluster;
  cluster.nodes = hosts;
  cluster.node.gpus = cluster.node.nics = 1;
  cluster.node.nic = gigabytes_per_second(25);
  cluster.node.pcie = gigabytes_per_second(50);
  cluster.fabric.rails = 1;
  cluster.fabric.nodes_per_tor = 8;
  cluster.fabric.tors_per_pod = 2;
  cluster.fabric.tor_uplinks = 4;
  cluster.fabric.uplink = gigabytes_per_second(12.5);
  cluster.fabric.oversubscription = 2;
  cluster.fabric.base_latency_us = 3;
  cluster.fabric.hop_latency_us = 1;
  job.parallel.data = hosts;
  job.network.model = std::move(model);
  job.network.send_window = Bytes{std::int64_t{1} << 40};  // SimGrid's flows go on at once
  job.seed = seed;
  return job;
}

class Numbers {
 public:
  Numbers(std::uint64_t seed, std::string_view name) : key_(random_key(seed, name)) {}
  int below(int n) { return static_cast<int>(philox(key_, next_++)[0] % static_cast<unsigned>(n)); }

 private:
  PhiloxKey key_;
  std::uint64_t next_ = 0;
};

struct Arrival {
  Time at;
  Flow flow;
};

// A change of a link, between arrivals.
struct Change {
  Time at;
  std::string link;
  double fraction;
};

using Load = std::vector<Arrival>;

Load permutation(int hosts, std::uint64_t seed, bool equal) {
  Numbers draws(seed, "permutation");
  std::vector<int> target(static_cast<std::size_t>(hosts));
  std::iota(target.begin(), target.end(), 0);
  for (int i = hosts - 1; i > 0; --i) std::swap(target[i], target[draws.below(i)]);  // no fixed one
  Load load;
  for (int i = 0; i < hosts; ++i)
    load.push_back(
        {{},
         {RankId{i}, RankId{target[i]}, Bytes{equal ? 100'000'000 : 1 + draws.below(1 << 28)}}});
  return load;
}

Load incast(int hosts, std::uint64_t seed) {
  Numbers draws(seed, "incast");
  Load load;
  for (int i = 1; i < hosts; ++i)
    load.push_back({{}, {RankId{i}, RankId{0}, Bytes{1 + draws.below(1 << 28)}}});
  return load;
}

Load arrivals(int hosts, std::uint64_t seed) {
  Numbers draws(seed, "arrivals");
  Load load;
  for (int i = 0; i < 4 * hosts; ++i) {
    const int source = draws.below(hosts), target = (source + 1 + draws.below(hosts - 1)) % hosts;
    load.push_back({nanoseconds(draws.below(20'000'000)),
                    {RankId{source}, RankId{target}, Bytes{1 + draws.below(1 << 28)}}});
  }
  std::ranges::stable_sort(load, {}, &Arrival::at);
  return load;
}

// When each flow has arrived after its start, seconds.
std::vector<double> times(const Job& job, const Load& load, std::vector<Change> changes = {}) {
  const auto model = make_network_model(job);
  std::map<FlowId, std::size_t> flow;
  std::vector<double> took(load.size());
  std::vector<FlowEnd> ended;
  std::size_t next = 0, changed = 0;
  while (flow.size() < load.size() || ended.size() < load.size()) {
    const Time start = next < load.size() ? load[next].at : kNever;
    const Time change = changed < changes.size() ? changes[changed].at : kNever;
    const std::size_t before = ended.size();
    model->advance(std::min(start, change), ended);
    if (ended.size() > before) continue;
    if (change <= start) {
      if (change == kNever) break;  // nothing moves any more
      model->set_capacity(model->link(changes[changed].link), changes[changed].fraction, change);
      ++changed;
    } else {
      flow[model->start(load[next].flow, start)] = next;
      ++next;
    }
  }
  EXPECT_EQ(ended.size(), load.size());
  for (const FlowEnd& end : ended)
    took[flow[end.flow]] = to_seconds(end.at - load[flow[end.flow]].at);
  return took;
}

void expect_same(int hosts, std::uint64_t seed, const Load& load,
                 const std::vector<Change>& changes = {}) {
  Job job = crowded_job(hosts, "flow", seed);
  const auto ours = times(job, load, changes);
  job.network.model = "simgrid";
  const auto theirs = times(job, load, changes);
  for (std::size_t i = 0; i < load.size(); ++i)
    ASSERT_NEAR(ours[i], theirs[i], 1e-7 * theirs[i] + 5e-9)
        << hosts << " hosts, seed " << seed << ", flow " << i;
}

TEST(Simgrid, AgreesOnPermutations) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    const int hosts = seed % 2 == 0 ? 64 : 16;
    expect_same(hosts, seed, permutation(hosts, seed, true));
    expect_same(hosts, seed, permutation(hosts, seed, false));
  }
}

TEST(Simgrid, AgreesOnIncasts) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed)
    expect_same(seed % 2 == 0 ? 64 : 16, seed, incast(seed % 2 == 0 ? 64 : 16, seed));
}

TEST(Simgrid, AgreesOnRandomArrivals) {
  for (std::uint64_t seed = 1; seed <= 10; ++seed)
    expect_same(seed % 2 == 0 ? 64 : 32, seed, arrivals(seed % 2 == 0 ? 64 : 32, seed));
}

// Links slow down, die and come back while flows that began before and in between cross them.
TEST(Simgrid, AgreesWhileLinksChange) {
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    Numbers draws(seed, "changes");
    std::vector<Change> changes;
    for (int i = 0; i < 40; ++i) {
      const Time at = nanoseconds(500'000 * (1 + i) + draws.below(500'000));
      const std::string link = draws.below(2) == 0
                                   ? fmt::format("tor_up:{}:{}", draws.below(4), draws.below(4))
                                   : fmt::format("nic_in:{}", draws.below(32));
      changes.push_back({at, link, 0.25 * draws.below(4)});
      changes.push_back({at + nanoseconds(400'000), link, 1});
    }
    std::ranges::stable_sort(changes, {}, &Change::at);
    expect_same(32, seed, arrivals(32, seed), changes);
  }
}

// A ring through 16 hosts of two ToRs and a stranger into one of them: the ring keeps to the pace
// of its slowest edge, which SimGrid must be told as one communication over all its links.
TEST(Simgrid, AgreesOnFlowsInStepAndQueuePairs) {
  for (const int pairs : {1, 4}) {
    std::vector<Time> ends;
    for (const char* name : {"flow", "simgrid"}) {
      Job job = crowded_job(32, name, 3);
      job.network.qps_per_connection = pairs;
      const auto model = make_network_model(job);
      std::vector<Flow> ring;
      for (int i = 0; i < 16; ++i)
        ring.push_back({RankId{i}, RankId{(i + 1) % 16}, Bytes{1 << 28}});
      model->start_in_step(ring, {});
      model->start({RankId{30}, RankId{5}, Bytes{1 << 27}}, microseconds(100));
      std::vector<FlowEnd> ended;
      while (model->advance(kNever, ended) < kNever) {
      }
      ASSERT_EQ(ended.size(), 2u);
      for (const FlowEnd& end : ended) ends.push_back(end.at);
    }
    EXPECT_NEAR(to_seconds(ends[0]) / to_seconds(ends[2]), 1, 1e-6) << pairs;
    EXPECT_NEAR(to_seconds(ends[1]) / to_seconds(ends[3]), 1, 1e-6) << pairs;
  }
}

TEST(Simgrid, CancelledFlowsLeaveTheirShareToOthers) {
  for (const char* name : {"flow", "simgrid"}) {
    const auto model = make_network_model(crowded_job(16, name, 1));
    const FlowId stays = model->start({RankId{1}, RankId{0}, Bytes{50'000'000}}, {});
    const FlowId leaves = model->start({RankId{2}, RankId{0}, Bytes{50'000'000}}, {});
    std::vector<FlowEnd> ended;
    EXPECT_EQ(model->advance(microseconds(2000), ended), microseconds(2000));
    model->cancel(leaves, microseconds(2000));  // 25 MB are left of the other, 1 ms
    EXPECT_EQ(model->advance(kNever, ended), microseconds(3003)) << name;
    ASSERT_EQ(ended.size(), 1u);
    EXPECT_EQ(ended.front().flow, stays);
  }
}

// It used to take no notice.
TEST(Simgrid, RefusesProtocolsThatItCannotHonour) {
  for (const char* control : {"none", "dcqcn", "swift", "hybrid"}) {
    Job job = crowded_job(16, "simgrid", 1);
    job.network.congestion_control = control;
    try {
      make_network_model(job);
      ADD_FAILURE() << control;
    } catch (const ConfigError& error) {
      const std::string text = error.what();
      EXPECT_NE(text.find(std::string("network.congestion_control \"") + control), text.npos)
          << text;
      EXPECT_NE(text.find("legal: \"ideal\""), text.npos) << text;
    }
  }
  Job job = crowded_job(16, "simgrid", 1);
  job.network.adaptive_retransmission = true;
  EXPECT_THROW(make_network_model(job), ConfigError);
}

TEST(Simgrid, RunsOneSimulationAtATime) {
  const Job job = crowded_job(16, "simgrid", 1);
  const auto first = make_network_model(job);
  EXPECT_THROW(make_network_model(job), ConfigError);
}

}  // namespace
}  // namespace trainyard
