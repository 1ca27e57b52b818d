#include "core/plan/parameter_layout.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "tests/core/plan/layouts.h"

namespace trainyard {
namespace {

using testing::ElementsAre;

struct Expected {
  const char* tensor;
  std::int64_t first_row, first_column, rows, columns, offset, row_stride;
};

void expect_rectangles(const BucketLayout& bucket, const std::vector<Expected>& expected) {
  std::map<std::string, HeldRectangle> found;
  for (const HeldRectangle& r : bucket.rectangles) found[r.tensor] = r;
  for (const Expected& e : expected) {
    SCOPED_TRACE(e.tensor);
    ASSERT_TRUE(found.contains(e.tensor));
    const HeldRectangle& r = found[e.tensor];
    EXPECT_THAT(
        (std::array{r.first_row, r.first_column, r.rows, r.columns, r.offset, r.row_stride}),
        ElementsAre(e.first_row, e.first_column, e.rows, e.columns, e.offset, e.row_stride));
  }
}

// Two layers of hidden 4, 2 heads of 2, ffn 8, vocabulary 5 padded to 6, sequence 3, on two tensor
// ranks. Replicated first: norm1 8, proj_bias 4, norm2 8, fc2_bias 4 of layer 0 (24), the same of
// layer 1 (24), positions 12, final_norm 8: 68. Then layer 0: qkv [4, 6] at 68, qkv_bias 6 at 92,
// proj [2, 4] at 98, fc1 [4, 4] at 106, fc1_bias 4 at 122, fc2 [4, 4] at 126; layer 1 from 142 on.
TEST(ParameterLayout, FollowsTheFlatBufferByHand) {
  const auto layouts = bucket_layouts(tiny_job({.tensor = 2}), 0, 1);
  ASSERT_EQ(layouts.size(), 2u);
  EXPECT_TRUE(layouts[0].tied);
  EXPECT_EQ(layouts[0].elements, 12);
  expect_rectangles(layouts[0], {{"embedding", 3, 0, 2, 4, 0, 4}});  // row 5 is padding
  EXPECT_EQ(layouts[1].elements, 68 + 2 * 74);
  expect_rectangles(layouts[1], {{"layer0.norm1", 0, 0, 2, 4, 0, 4},
                                 {"layer0.proj_bias", 0, 0, 1, 4, 8, 4},
                                 {"layer1.norm1", 0, 0, 2, 4, 24, 4},
                                 {"positions", 0, 0, 3, 4, 48, 4},
                                 {"final_norm", 0, 0, 2, 4, 60, 4},
                                 {"layer0.q", 0, 2, 4, 2, 68, 6},
                                 {"layer0.k", 0, 2, 4, 2, 70, 6},
                                 {"layer0.v", 0, 2, 4, 2, 72, 6},
                                 {"layer0.k_bias", 0, 2, 1, 2, 94, 6},
                                 {"layer0.proj", 2, 0, 2, 4, 98, 4},
                                 {"layer0.fc1", 0, 4, 4, 4, 106, 4},
                                 {"layer0.fc2", 4, 0, 4, 4, 126, 4},
                                 {"layer1.q", 0, 2, 4, 2, 142, 6}});
}

// A fused block holds q k v gate value side by side and proj above fc2 (local widths 2 2 2 4 4).
TEST(ParameterLayout, FusedBlocksHoldSeveralTensorsInOne) {
  Job job = tiny_job({.tensor = 2, .sequence = true, .fused = true});
  job.model.activation = Activation::swiglu;
  const auto layouts = bucket_layouts(job, 0, 0);
  const std::int64_t base = 2 * (8 + 4) + 12 + 8;  // no norm2, no fc2_bias in a parallel block
  expect_rectangles(layouts[1], {{"layer0.q", 0, 0, 4, 2, base, 14},
                                 {"layer0.v", 0, 0, 4, 2, base + 4, 14},
                                 {"layer0.gate", 0, 0, 4, 4, base + 6, 14},
                                 {"layer0.value", 0, 0, 4, 4, base + 10, 14},
                                 {"layer0.proj", 0, 0, 2, 4, base + 56 + 6, 4},
                                 {"layer0.fc2", 0, 0, 4, 4, base + 56 + 6 + 8, 4}});
}

// Every element of every logical tensor is held once over the tensor ranks, or by all of them if
// it is replicated; the tied table again by the last stage. No two elements share a place, and the
// places left over are the padding.
TEST(ParameterLayout, EveryLogicalElementIsHeldExactlyOnce) {
  for (const LayoutCase& c : layout_cases()) {
    SCOPED_TRACE(c.name);
    const Job job = c.job();
    std::map<std::string, std::vector<int>> held, replicated;
    for (const LogicalTensor& t : logical_tensors(job.model, job.batch.sequence_length))
      held[t.name].resize(t.elements()), replicated[t.name].resize(t.elements());
    for (std::int32_t stage = 0; stage < job.stages(); ++stage) {
      for (std::int32_t rank = 0; rank < job.parallel.tensor; ++rank) {
        for (const BucketLayout& bucket : bucket_layouts(job, stage, rank)) {
          std::vector<bool> taken(bucket.elements);
          if (bucket.tied && stage > 0) continue;
          for (const HeldRectangle& r : bucket.rectangles) {
            auto& count = r.replicated ? replicated[r.tensor] : held[r.tensor];
            ASSERT_EQ(static_cast<std::int64_t>(count.size()), r.shape[0] * r.shape[1]) << r.tensor;
            for (std::int64_t i = 0; i < r.rows; ++i)
              for (std::int64_t j = 0; j < r.columns; ++j) {
                ++count[(r.first_row + i) * r.shape[1] + r.first_column + j];
                const std::int64_t place = r.offset + i * r.row_stride + j;
                ASSERT_FALSE(taken[place]) << r.tensor;
                taken[place] = true;
              }
          }
        }
      }
    }
    for (const auto& [name, counts] : held)
      for (std::size_t i = 0; i < counts.size(); ++i)
        ASSERT_EQ(counts[i] * job.parallel.tensor + replicated[name][i], job.parallel.tensor)
            << name << " element " << i;
  }
}

TEST(ParameterLayout, BothEndsOfAPipelineHoldTheTiedTable) {
  const Job job = tiny_job({.pipeline = 2});
  for (const std::int32_t stage : {0, 1}) {
    const auto layouts = bucket_layouts(job, stage, 0);
    EXPECT_TRUE(layouts[0].tied);
    expect_rectangles(layouts[0], {{"embedding", 0, 0, 5, 4, 0, 4}});
  }
}

}  // namespace
}  // namespace trainyard
