#include "core/checkpoint/shard_map.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "core/model/initial_weights.h"
#include "tests/core/plan/layouts.h"

namespace trainyard {
namespace {

using testing::ElementsAre;

HeldRectangle rectangle(std::int64_t rows, std::int64_t columns, std::int64_t offset,
                        std::int64_t stride) {
  return {{"t", {rows, columns}, 0, 0, rows, columns, offset, stride}, false};
}

// first_row, first_column, rows, columns, offset
std::vector<std::array<std::int64_t, 5>> clipped(const HeldRectangle& r, ElementRange range) {
  std::vector<std::array<std::int64_t, 5>> parts;
  for (const Rectangle& p : clip({&r, 1}, range))
    parts.push_back({p.first_row, p.first_column, p.rows, p.columns, p.offset});
  return parts;
}

using Part = std::array<std::int64_t, 5>;

TEST(ShardMap, ClippingCutsRowsAtBothEnds) {
  const HeldRectangle r = rectangle(4, 3, 10, 3);  // elements 10 … 21
  EXPECT_THAT(clipped(r, {0, 100}), ElementsAre(Part{0, 0, 4, 3, 10}));
  EXPECT_THAT(clipped(r, {11, 9}),
              ElementsAre(Part{0, 1, 1, 2, 0}, Part{1, 0, 2, 3, 2}, Part{3, 0, 1, 1, 8}));
  EXPECT_THAT(clipped(r, {14, 1}), ElementsAre(Part{1, 1, 1, 1, 0}));
  EXPECT_THAT(clipped(r, {0, 10}), ElementsAre());
  EXPECT_THAT(clipped(r, {22, 5}), ElementsAre());
  EXPECT_THAT(clipped(r, {16, 3}), ElementsAre(Part{2, 0, 1, 3, 0}));
  EXPECT_THAT(clipped(r, {12, 2}), ElementsAre(Part{0, 2, 1, 1, 0}, Part{1, 0, 1, 1, 1}));
}

TEST(ShardMap, ClippingSkipsWhatLiesBetweenRows) {
  const HeldRectangle r = rectangle(3, 2, 0, 5);  // elements 0 1, 5 6, 10 11
  EXPECT_THAT(clipped(r, {2, 3}), ElementsAre());
  EXPECT_THAT(clipped(r, {1, 10}),
              ElementsAre(Part{0, 1, 1, 1, 0}, Part{1, 0, 1, 2, 4}, Part{2, 0, 1, 1, 9}));
  EXPECT_THAT(clipped(r, {3, 9}), ElementsAre(Part{1, 0, 2, 2, 2}));
}

// Every range of a small buffer against one element after the other.
TEST(ShardMap, ClippingKeepsExactlyTheElementsInRange) {
  for (const HeldRectangle& r : {rectangle(4, 3, 2, 3), rectangle(3, 2, 1, 5),
                                 rectangle(1, 7, 0, 7), rectangle(5, 1, 3, 2)}) {
    for (std::int64_t first = 0; first < 20; ++first)
      for (std::int64_t count = 0; first + count <= 20; ++count) {
        std::map<std::int64_t, std::int64_t> expected, got;  // place → logical element
        for (std::int64_t i = 0; i < r.rows; ++i)
          for (std::int64_t j = 0; j < r.columns; ++j) {
            const std::int64_t place = r.offset + i * r.row_stride + j - first;
            if (place >= 0 && place < count) expected[place] = i * r.columns + j;
          }
        const auto parts = clip({&r, 1}, {first, count});
        EXPECT_LE(parts.size(), 3u);
        for (const Rectangle& p : parts)
          for (std::int64_t i = 0; i < p.rows; ++i)
            for (std::int64_t j = 0; j < p.columns; ++j)
              got[p.offset + i * p.row_stride + j] =
                  (p.first_row + i) * r.columns + p.first_column + j;
        ASSERT_EQ(got, expected) << first << " + " << count;
      }
  }
}

std::vector<Coord> all_ranks(const Job& job) {
  const Mesh mesh = job.mesh();
  std::vector<Coord> coords;
  for (std::int32_t r = 0; r < mesh.size(); ++r) coords.push_back(mesh.coord(RankId(r)));
  return coords;
}

// A saved piece and its elements in the order of the flat share.
struct Saved {
  Rectangle rectangle;
  std::vector<float> share;
};

// Copies the elements that both rectangles have; returns how many.
std::int64_t copy_overlap(const Rectangle& from, const std::vector<float>& source,
                          const Rectangle& to, std::vector<float>& target) {
  const Rectangle in = overlap(from, to), out = overlap(to, from);
  for (std::int64_t i = 0; i < in.rows; ++i)
    for (std::int64_t j = 0; j < in.columns; ++j)
      target[out.offset + i * out.row_stride + j] = source[in.offset + i * in.row_stride + j];
  return in.elements();
}

// What all ranks of a job save when their parameters are the initial weights.
std::vector<Saved> save_initial_weights(const Job& job) {
  const InitialWeights initial(job.model, job.batch.sequence_length, 11);
  std::vector<Saved> saved;
  for (const Coord& coord : all_ranks(job)) {
    const auto layouts = bucket_layouts(job, coord[Axis::pipeline], coord[Axis::tensor]);
    for (const BucketPieces& pieces : pieces_to_save(job, coord)) {
      const BucketLayout& bucket = layouts[pieces.bucket];
      std::vector<float> flat(bucket.elements, NAN);
      for (const HeldRectangle& r : bucket.rectangles) initial.fill(r, flat);
      const ElementRange range = stepped_range(bucket, coord[Axis::data]);
      const std::vector<float> share(flat.begin() + range.first,
                                     flat.begin() + range.first + range.count);
      for (const Rectangle& r : pieces.rectangles) saved.push_back({r, share});
    }
  }
  return saved;
}

TEST(ShardMap, AllRanksTogetherSaveEveryElementOnce) {
  for (const LayoutCase& c : layout_cases()) {
    SCOPED_TRACE(c.name);
    const Job job = c.job();
    std::map<std::string, std::vector<int>> counts;
    for (const LogicalTensor& t : logical_tensors(job.model, job.batch.sequence_length))
      counts[t.name].resize(t.elements());
    for (const Saved& s : save_initial_weights(job))
      for (std::int64_t i = 0; i < s.rectangle.rows; ++i)
        for (std::int64_t j = 0; j < s.rectangle.columns; ++j)
          ++counts[s.rectangle.tensor][(s.rectangle.first_row + i) * s.rectangle.shape[1] +
                                       s.rectangle.first_column + j];
    for (const auto& [name, count] : counts) EXPECT_THAT(count, testing::Each(1)) << name;
  }
}

// Every layout's shards, put into every other layout of the same model, give what that layout
// starts with.
TEST(ShardMap, AnyLayoutIsAssembledFromAnyOther) {
  const auto cases = layout_cases();
  for (const LayoutCase& from : cases) {
    const std::vector<Saved> saved = save_initial_weights(from.job());
    for (const LayoutCase& to : cases) {
      const Job target = to.job();
      const auto names = [](const Job& job) {
        std::map<std::string, std::array<std::int64_t, 2>> shapes;
        for (const LogicalTensor& t : logical_tensors(job.model, job.batch.sequence_length))
          shapes[t.name] = {t.rows, t.columns};
        return shapes;
      };
      if (names(from.job()) != names(target)) continue;
      SCOPED_TRACE(from.name + " → " + to.name);
      const InitialWeights initial(target.model, target.batch.sequence_length, 11);
      for (const Coord& coord : all_ranks(target))
        for (const BucketLayout& bucket :
             bucket_layouts(target, coord[Axis::pipeline], coord[Axis::tensor])) {
          const ElementRange range = stepped_range(bucket, coord[Axis::data]);
          std::vector<float> expected(bucket.elements, 0), got(range.count, 0);
          for (const HeldRectangle& r : bucket.rectangles) initial.fill(r, expected);
          std::int64_t copied = 0, wanted = 0;
          for (const Rectangle& r : clip(bucket.rectangles, range)) {
            wanted += r.elements();
            for (const Saved& s : saved) copied += copy_overlap(s.rectangle, s.share, r, got);
          }
          ASSERT_EQ(copied, wanted);
          ASSERT_EQ(got, std::vector<float>(expected.begin() + range.first,
                                            expected.begin() + range.first + range.count));
        }
    }
  }
}

TEST(ShardMap, RectanglesApartOrOfOtherTensorsDoNotOverlap) {
  Rectangle a{"t", {4, 4}, 0, 0, 2, 2, 0, 2}, b{"t", {4, 4}, 2, 0, 2, 2, 0, 2};
  EXPECT_EQ(overlap(a, b).elements(), 0);
  b.first_row = 1;
  EXPECT_EQ(overlap(a, b).elements(), 2);
  EXPECT_EQ(overlap(a, b).offset, 2);
  b.tensor = "u";
  EXPECT_EQ(overlap(a, b).elements(), 0);
}

}  // namespace
}  // namespace trainyard
