#include "network_models/fabric/fabric.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <set>
#include <string>
#include <vector>

#include "core/error.h"
#include "network_models/fabric/router.h"

namespace trainyard {
namespace {

// Nodes of one GPU and one card of 25 GB/s below ToR switches of their own rail-less fabric.
Cluster cluster_of(std::int32_t nodes, std::int32_t nodes_per_tor, std::int32_t tors_per_pod,
                   std::int32_t uplinks) {
  Cluster cluster;
  cluster.nodes = nodes;
  cluster.node.gpus = cluster.node.nics = 1;
  cluster.node.nic = gigabytes_per_second(25);
  cluster.node.pcie = gigabytes_per_second(25);
  cluster.fabric.rails = 1;
  cluster.fabric.nodes_per_tor = nodes_per_tor;
  cluster.fabric.tors_per_pod = tors_per_pod;
  cluster.fabric.tor_uplinks = uplinks;
  cluster.fabric.uplink = gigabytes_per_second(25);
  cluster.fabric.base_latency_us = 3;
  cluster.fabric.hop_latency_us = 1;
  return cluster;
}

// MegaScale (NSDI 2024, section 3.6): 8 rails, 64 nodes a set, 32 ToRs a pod, 32 uplinks a ToR.
Cluster megascale() {
  Cluster cluster = cluster_of(1536, 64, 32, 32);
  cluster.node.gpus = cluster.node.nics = cluster.fabric.rails = 8;
  cluster.node.nvlink = gigabytes_per_second(240);
  cluster.fabric.uplink = gigabytes_per_second(50);
  return cluster;
}

// A fat tree of 4-port switches (Al-Fares et al., SIGCOMM 2008, figure 3): 16 hosts, 8 edge and 8
// aggregation switches in 4 pods, 4 core switches, 16 cables between any two tiers.
TEST(Fabric, CountsAFatTreeOfFourPortSwitches) {
  const Fabric fabric(cluster_of(16, 2, 2, 2));
  EXPECT_EQ(fabric.tors(), 8);
  EXPECT_EQ(fabric.pods(), 4);
  EXPECT_EQ(fabric.pods() * fabric.aggregations(), 8);
  EXPECT_EQ(fabric.aggregations() * fabric.cores_per_plane(), 4);
  for (const LinkKind kind : {LinkKind::nic_out, LinkKind::tor_up, LinkKind::core_down})
    EXPECT_EQ(fabric.links(kind), 16);
}

// 24 ToR sets of 8, 6 pods; 192 x 32 uplinks, and 6 pods x 32 switches x 32 ports into the core.
TEST(Fabric, CountsMegaScalesThreeTiers) {
  const Fabric fabric(megascale());
  EXPECT_EQ(fabric.tors(), 192);
  EXPECT_EQ(fabric.pods(), 6);
  EXPECT_EQ(fabric.links(LinkKind::nic_out), 12288);
  EXPECT_EQ(fabric.links(LinkKind::tor_up), 6144);
  EXPECT_EQ(fabric.links(LinkKind::core_up), 6144);
}

TEST(Fabric, HasOnlyTheTiersThatSomethingCrosses) {
  EXPECT_EQ(Fabric(cluster_of(8, 8, 4, 4)).links(LinkKind::tor_up), 0);
  const Fabric one_pod(cluster_of(16, 8, 4, 4));
  EXPECT_EQ(one_pod.links(LinkKind::tor_up), 8);
  EXPECT_EQ(one_pod.links(LinkKind::core_up), 0);
}

TEST(Fabric, FindsEveryLinkAgainByItsPlace) {
  const Fabric fabric(megascale());
  std::set<std::string> names;
  for (std::int32_t i = 0; i < fabric.links(); names.insert(fabric.name(LinkId{i++})))
    ASSERT_EQ(fabric.link(fabric.place(LinkId{i})), LinkId{i});
  EXPECT_EQ(names.size(), static_cast<std::size_t>(fabric.links()));
}

// 1:7 above 4 ToRs of 4 uplinks: 4 / 7 of an uplink's rate on the one port that is left.
TEST(Fabric, OversubscriptionNarrowsTheWayIntoTheCore) {
  Cluster cluster = cluster_of(32, 2, 4, 4);
  cluster.fabric.oversubscription = 7;
  const Fabric fabric(cluster);
  EXPECT_EQ(fabric.cores_per_plane(), 1);
  EXPECT_NEAR(fabric.capacity(LinkKind::core_up), 25e9 * 4 / 7, 1);
}

// 0x11 x 0x13 = 0x143. 0xABCDEF x 0xFEDCBA = 0xAB0A74EF03A6; its low 20 bits, ^ 0x0A74E ^ 0xAB, are
// 0xFA443; of these the low 14 ^ the high 6 are 0x2443 ^ 0x3E = 0x247D.
TEST(Router, SourcePortFoldsTheQueuePairNumbersAsLinuxDoes) {
  EXPECT_EQ(roce_source_port(0x11, 0x13), 0xC143);
  EXPECT_EQ(roce_source_port(0xABCDEF, 0xFEDCBA), 0xE47D);
}

class Paths : public testing::Test {
 protected:
  // The kinds of links from GPU to GPU; checks that they meet at every switch and card.
  std::vector<LinkKind> kinds(const Fabric& fabric, const QueuePair& pair, const Path& path) {
    std::vector<LinkKind> out;
    std::int32_t plane = -1, port = -1;
    for (const LinkId link : path.span()) {
      const LinkPlace at = fabric.place(link);
      out.push_back(at.kind);
      if (at.kind == LinkKind::tor_up) plane = at.port;
      EXPECT_TRUE(at.kind != LinkKind::tor_down || at.port == plane);
      if (at.kind == LinkKind::core_up) port = at.port;
      EXPECT_TRUE(at.kind != LinkKind::core_down || at.port == port);
      EXPECT_TRUE(at.kind < LinkKind::core_up || at.owner % fabric.aggregations() == plane);
      EXPECT_TRUE(at.kind != LinkKind::pcie_in || at.owner == pair.target);
    }
    return out;
  }
};

TEST_F(Paths, ClimbAsFarAsTheyMust) {
  using enum LinkKind;
  const Fabric fabric(megascale());
  const Router router(fabric, false, 1);
  const auto of = [&](std::int32_t source, std::int32_t target) {
    const QueuePair pair{source, target};
    return kinds(fabric, pair, router.path(pair));
  };
  using Kinds = std::vector<LinkKind>;
  EXPECT_EQ(of(0, 5), (Kinds{gpu_out, gpu_in}));
  EXPECT_EQ(of(3, 8 * 63 + 3), (Kinds{pcie_out, nic_out, nic_in, pcie_in}));
  EXPECT_EQ(of(3, 8 * 64 + 3), (Kinds{pcie_out, nic_out, tor_up, tor_down, nic_in, pcie_in}));
  EXPECT_EQ(of(3, 8 * 256 + 3),
            (Kinds{pcie_out, nic_out, tor_up, core_up, core_down, tor_down, nic_in, pcie_in}));
}

TEST_F(Paths, ReachAnotherRailByNvlinkFirst) {
  using enum LinkKind;
  const Fabric fabric(megascale());
  const QueuePair pair{0, 8 + 3};
  const Path path = Router(fabric, false, 1).path(pair);
  EXPECT_EQ(kinds(fabric, pair, path),
            (std::vector{gpu_out, gpu_in, pcie_out, nic_out, nic_in, pcie_in}));
  EXPECT_EQ(fabric.place(path.link[3]), (LinkPlace{nic_out, 3}));
  EXPECT_EQ(path.switches, 1);
}

TEST_F(Paths, SwitchesThatSprayUseAllUplinksAsOne) {
  Cluster cluster = cluster_of(64, 8, 4, 4);
  cluster.fabric.adaptive_routing = true;
  const Fabric fabric(cluster);
  EXPECT_DOUBLE_EQ(fabric.capacity(LinkKind::tor_up), 4 * 25e9);
  EXPECT_DOUBLE_EQ(fabric.capacity(LinkKind::core_up), 4 * 4 * 25e9);
  const Router router(fabric, false, 1);
  EXPECT_EQ(router.path({0, 63}).link[2], router.path({1, 62}).link[2]);
}

TEST_F(Paths, SeveralCardsOfAGpuTakeTurns) {
  Cluster cluster = megascale();
  cluster.node.nics = cluster.fabric.rails = 16;
  const Fabric fabric(cluster);
  const Router router(fabric, false, 1);
  for (std::uint32_t number = 0; number < 4; ++number) {
    const auto of_first_channel = router.path({2, 8 + 2, 0, number});
    EXPECT_EQ(fabric.place(of_first_channel.link[1]).owner, 4 + static_cast<int>(number % 2));
    const auto of_second_channel = router.path({2, 8 + 2, 1, number});
    EXPECT_EQ(fabric.place(of_second_channel.link[1]).owner, 5 - static_cast<int>(number % 2));
  }
}

// Mean and slowest of flows between two ToR switches; a draw is a channel of every pair. The table
// of published Monte-Carlo draws of equal flows on equal links is repeated by real hashes.
TEST(Ecmp, CollidesAsOftenAsRandomDraws) {
  const struct {
    std::int32_t flows, links;
    double capacity;
    std::uint32_t qps;
    double mean, slowest;
  } rows[] = {{8, 8, 1, 1, .656, .409},   {8, 32, 1, 1, .898, .686},   {32, 32, 1, 1, .638, .295},
              {64, 64, 1, 1, .635, .262}, {16, 16, 2, 1, .908, .688},  {32, 32, 2, 1, .902, .591},
              {64, 32, 2, 1, .734, .380}, {128, 64, 2, 1, .731, .342}, {32, 32, 1, 4, .807, .470},
              {32, 32, 1, 8, .862, .562}, {32, 32, 1, 16, .903, .649}, {32, 32, 1, 32, .931, .727},
              {64, 32, 2, 4, .862, .562}, {64, 32, 2, 8, .902, .647},  {64, 32, 2, 16, .931, .726},
              {64, 32, 2, 32, .951, .789}};
  for (const auto& row : rows) {
    const Fabric fabric(cluster_of(2 * row.flows, row.flows, 2, row.links));
    const Router router(fabric, false, 7);
    const int draws = 40'000 / (row.flows * static_cast<int>(row.qps)) + 150;
    const double fits = row.capacity * row.qps;
    double mean = 0, slowest = 0;
    for (int draw = 0; draw < draws; ++draw) {
      std::vector<double> load(static_cast<std::size_t>(row.links));
      std::vector<int> taken;
      for (std::int32_t flow = 0; flow < row.flows; ++flow)
        for (std::uint32_t qp = 0; qp < row.qps; ++qp) {
          const Path path =
              router.path({flow, row.flows + flow, static_cast<std::uint32_t>(draw), qp});
          taken.push_back(fabric.place(path.link[2]).port);
          ++load[taken.back()];
        }
      double all = 0, least = 1;
      for (const int link : taken) {
        const double rate = std::min(1.0, fits / load[link]);
        all += rate;
        least = std::min(least, rate);
      }
      mean += all / static_cast<double>(taken.size()) / draws;
      slowest += least / draws;
    }
    EXPECT_NEAR(mean, row.mean, 0.02 * row.mean) << row.flows << " on " << row.links;
    EXPECT_NEAR(slowest, row.slowest, 0.02 * row.slowest) << row.flows << " on " << row.links;
  }
}

// Ports into the core that flows from one ToR switch use on one aggregation switch.
std::size_t ports_used(bool polarised, std::int32_t uplinks, std::int32_t core_ports) {
  const Fabric fabric(cluster_of(2 * core_ports, 1, core_ports, uplinks));
  const Router router(fabric, polarised, 3);
  std::set<std::int32_t> used;
  for (std::uint32_t channel = 0; channel < 2000; ++channel) {
    const Path path = router.path({0, 2 * core_ports - 1, channel});
    if (fabric.place(path.link[2]).port == 0) used.insert(fabric.place(path.link[3]).port);
  }
  return used.size();
}

TEST(Ecmp, PolarisedHashesLeaveFewUplinks) {
  using Tiers = std::initializer_list<std::pair<int, int>>;
  for (const auto& [n1, n2] : Tiers{{8, 8}, {6, 4}, {5, 4}, {4, 12}, {16, 4}}) {
    EXPECT_EQ(ports_used(true, n1, n2), static_cast<std::size_t>(n2 / std::gcd(n1, n2)));
    EXPECT_EQ(ports_used(false, n1, n2), static_cast<std::size_t>(n2));
  }
}

TEST(Ecmp, PathsRepeatWithTheSeed) {
  const Fabric fabric(megascale());
  const Router one(fabric, false, 1), again(fabric, false, 1), other(fabric, false, 2);
  for (std::int32_t node = 0; node < 8; ++node) {
    const QueuePair pair{8 * node, 8 * (node + 640)};
    EXPECT_EQ(one.path(pair).link, again.path(pair).link);
    EXPECT_NE(one.path(pair).link, other.path(pair).link);
  }
}

class DeadLinks : public testing::Test {
 protected:
  Fabric fabric{cluster_of(64, 8, 4, 4)};  // two pods of four ToRs
  Router router{fabric, false, 1};
  // Whether any of 200 connections from node 0 crosses the link.
  bool used(std::int32_t target, LinkId link) {
    for (std::uint32_t channel = 0; channel < 200; ++channel)
      if (std::ranges::count(router.path({0, target, channel}).span(), link) > 0) return true;
    return false;
  }
};

TEST_F(DeadLinks, AreGoneAroundInEveryTier) {
  const LinkPlace places[] = {{LinkKind::tor_up, 0, 2},
                              {LinkKind::core_up, 1, 3},
                              {LinkKind::core_down, 4 + 1, 0},
                              {LinkKind::tor_down, 7, 3}};
  for (const LinkPlace& place : places) {
    const LinkId link = fabric.link(place);
    EXPECT_TRUE(used(63, link)) << fabric.name(link);
    router.set_up(link, false);
    EXPECT_FALSE(used(63, link)) << fabric.name(link);
  }
  for (const LinkPlace& place : places) router.set_up(fabric.link(place), true);
  EXPECT_TRUE(used(63, fabric.link(places[0])));
}

TEST_F(DeadLinks, ThatPartTheNetworkAreAnErrorThatNamesBothEnds) {
  for (std::int32_t port = 0; port < 4; ++port)
    router.set_up(fabric.link({LinkKind::tor_down, 7, port}), false);
  EXPECT_NO_THROW(router.path({0, 55}));
  try {
    router.path({5, 60});
    FAIL();
  } catch (const ConfigError& error) {
    EXPECT_NE(std::string(error.what()).find("GPU 0 of node 5 to GPU 0 of node 60"),
              std::string::npos)
        << error.what();
  }
}

TEST_F(DeadLinks, OfACardCutItsNodeOff) {
  router.set_up(fabric.link({LinkKind::nic_in, 9}), false);
  EXPECT_THROW(router.path({0, 9}), ConfigError);
}

// Two cards of a GPU on two ToR switches: the other one takes over.
TEST(DualTor, FailsOverToTheOtherCard) {
  Cluster cluster = cluster_of(64, 8, 8, 4);
  cluster.node.nics = cluster.fabric.rails = 2;
  const Fabric fabric(cluster);
  Router router(fabric, false, 1);
  EXPECT_EQ(fabric.place(router.path({0, 63}).link[1]).owner, 0);
  router.set_up(fabric.link({LinkKind::nic_out, 0}), false);
  EXPECT_EQ(fabric.place(router.path({0, 63}).link[1]).owner, 1);
}

}  // namespace
}  // namespace trainyard
