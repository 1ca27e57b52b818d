#include "core/mesh/mesh.h"

#include <gtest/gtest.h>

#include <set>

namespace trainyard {
namespace {

constexpr std::array<Axis, kAxes> kOrder{Axis::tensor, Axis::context, Axis::expert, Axis::data,
                                         Axis::pipeline};

// tensor 2, data 3, pipeline 2, tensor innermost: rank = t + 2 d + 6 p.
TEST(Mesh, LaysOutTheInnermostAxisFirst) {
  const Mesh mesh({2, 1, 1, 3, 2}, kOrder);
  EXPECT_EQ(mesh.size(), 12);
  const Coord c = mesh.coord(RankId{9});
  EXPECT_EQ(c[Axis::tensor], 1);
  EXPECT_EQ(c[Axis::data], 1);
  EXPECT_EQ(c[Axis::pipeline], 1);
  EXPECT_EQ(mesh.members(Group::tensor, RankId{9}), (std::vector{RankId{8}, RankId{9}}));
  EXPECT_EQ(mesh.members(Group::data, RankId{9}), (std::vector{RankId{7}, RankId{9}, RankId{11}}));
  EXPECT_EQ(mesh.members(Group::embedding, RankId{9}), (std::vector{RankId{3}, RankId{9}}));
}

// tensor 2, context 2, data 3: rank = t + 2 c + 4 d. Context ranks hold the same weights, so they
// are replicas as data ranks are; the gradients' norm counts one of them.
TEST(Mesh, ContextRanksAreReplicasOfTheModel) {
  const Mesh mesh({2, 2, 1, 3, 1}, kOrder);
  EXPECT_EQ(mesh.members(Group::context, RankId{5}), (std::vector{RankId{5}, RankId{7}}));
  EXPECT_EQ(mesh.members(Group::data, RankId{5}),
            (std::vector{RankId{1}, RankId{3}, RankId{5}, RankId{7}, RankId{9}, RankId{11}}));
  EXPECT_EQ(mesh.members(Group::model, RankId{5}), (std::vector{RankId{4}, RankId{5}}));
  EXPECT_EQ(mesh.replicas(), 6);
  for (int r = 0; r < mesh.size(); ++r)
    EXPECT_EQ(mesh.members(Group::data, RankId{r})[mesh.replica(mesh.coord(RankId{r}))], RankId{r});
}

TEST(Mesh, AnyOrderPartitionsTheRanksIntoGroups) {
  std::array<Axis, kAxes> order = kOrder;
  do {
    const Mesh mesh({3, 2, 1, 5, 2}, order);
    for (int r = 0; r < mesh.size(); ++r) EXPECT_EQ(mesh.rank(mesh.coord(RankId{r})), RankId{r});
    for (int g = 0; g < kGroups; ++g) {
      const Group group = static_cast<Group>(g);
      std::set<std::vector<RankId>> groups;
      for (int r = 0; r < mesh.size(); ++r) {
        const auto members = mesh.members(group, RankId{r});
        EXPECT_EQ(static_cast<int>(members.size()), mesh.size(group));
        groups.insert(members);
      }
      if (group != Group::embedding) {
        EXPECT_EQ(static_cast<int>(groups.size()) * mesh.size(group), mesh.size());
      }
    }
  } while (std::next_permutation(order.begin(), order.end()));
}

TEST(Mesh, NeighboursWrapAround) {
  const Mesh mesh({2, 1, 1, 1, 3}, kOrder);
  EXPECT_EQ(mesh.neighbour(RankId{5}, Axis::pipeline, 1), RankId{1});
  EXPECT_EQ(mesh.neighbour(RankId{1}, Axis::pipeline, -1), RankId{5});
}

TEST(Mesh, EmbeddingGroupOfOneStageIsOneRank) {
  const Mesh mesh({1, 1, 1, 2, 1}, kOrder);
  EXPECT_EQ(mesh.members(Group::embedding, RankId{1}), (std::vector{RankId{1}}));
}

}  // namespace
}  // namespace trainyard
