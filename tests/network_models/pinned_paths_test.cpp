#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "network_models/fabric/router.h"

namespace trainyard {
namespace {

// 32 nodes send to 32 nodes below another ToR switch, each to one: every uplink has one flow. With
// a dead uplink two flows share one.
TEST(PinnedPaths, CarryAPermutationOfARackWithoutCollision) {
  Cluster cluster;
  cluster.nodes = 64;
  cluster.node.gpus = cluster.node.nics = cluster.fabric.rails = 1;
  cluster.fabric.nodes_per_tor = cluster.fabric.tor_uplinks = 32;
  cluster.fabric.tors_per_pod = 2;
  cluster.fabric.pinned = true;
  const Fabric fabric(cluster);
  Router router(fabric, false, 1);
  const auto busiest = [&] {
    std::vector<int> load(32);
    for (std::int32_t node = 0; node < 32; ++node)
      ++load[fabric.place(router.path({node, 32 + (node * 5 + 3) % 32}).link[2]).port];
    return std::ranges::max(load);
  };
  EXPECT_EQ(busiest(), 1);
  router.set_up(fabric.link({LinkKind::tor_up, 0, 7}), false);
  EXPECT_EQ(busiest(), 2);
}

}  // namespace
}  // namespace trainyard
