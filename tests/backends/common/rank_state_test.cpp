#include <gmock/gmock.h>

#include <algorithm>
#include <cstring>
#include <functional>

#include "backends/common/number_formats.h"
#include "tests/backends/common/ranks.h"
#include "tests/temporary_folder.h"

namespace trainyard {
namespace {

using testing::Each;
using testing::Not;
using testing::SizeIs;

void expect_equal(Ranks& got, Ranks& expected) {
  for (std::int32_t r = 0; r < expected.size(); ++r) {
    for (const BucketLayout& bucket : expected.state(r).buckets()) {
      for (const char* what : {"params", "param_shard", "master", "moment1", "moment2"}) {
        const std::string name = bucket.name + "." + what;
        ASSERT_TRUE(std::ranges::equal(got.flat(r, name), expected.flat(r, name)))
            << "rank " << r << ", " << name;
      }
    }
  }
}

struct OddLayout {
  TinyLayout layout;
  Precision precision = Precision::fp32;
};

std::vector<OddLayout> odd_layouts() {
  return {
      {{}},
      {{.tensor = 2, .pipeline = 3, .data = 2, .zero = 1}},
      {{.tensor = 4, .data = 3, .zero = 2}},
      {{.pipeline = 3, .data = 5, .zero = 1}, Precision::bf16},
      {{.data = 5, .zero = 3}},
      {{.tensor = 2, .data = 3, .zero = 3}, Precision::bf16},
      {{.tensor = 4, .pipeline = 3, .data = 2}, Precision::bf16},
      {{.tensor = 2, .data = 5, .zero = 2}, Precision::fp16},
      {{.data = 3, .context = 2}},
      {{.tensor = 2, .data = 2, .zero = 1, .context = 2}, Precision::bf16},
      {{.data = 1, .zero = 3, .context = 2}},
  };
}

void expect_any_layout_loads_any_other(const std::function<void(Job&)>& change) {
  std::vector<Ranks> saved, loaded;
  for (const OddLayout& layout : odd_layouts()) {
    Job job = odd_job(layout.layout, layout.precision);
    job.batch.sequence_length = 4;
    change(job);
    saved.emplace_back(job).start(7);
    loaded.emplace_back(job);
  }
  for (std::size_t from = 0; from < saved.size(); ++from) {
    TemporaryFolder folder;
    ASSERT_EQ(saved[from].save(folder.path()), "");
    const CheckpointReader reader(CheckpointStore(folder.path()).folder(1));
    for (std::size_t to = 0; to < loaded.size(); ++to) {
      SCOPED_TRACE(fmt::format("layout {} read by layout {}", from, to));
      loaded[to].start(100);
      loaded[to].load(reader);
      expect_equal(loaded[to], saved[to]);
      if (testing::Test::HasFailure()) return;
    }
  }
}

TEST(ThreadRankState, TiedModelsGoFromAnyLayoutToAnyOther) {
  expect_any_layout_loads_any_other([](Job&) {});
}

TEST(ThreadRankState, UntiedModelsGoFromAnyLayoutToAnyOther) {
  expect_any_layout_loads_any_other([](Job& job) { job.model.tied = false; });
}

TEST(RankState, PaddingAndMomentsStartAtZero) {
  Job job = tiny_job({.tensor = 2});
  job.training.precision = Precision::fp32;
  job.training.vocab_divisible_by = 8;  // of 16 rows, the second rank's 8 to 15 are padding
  Ranks ranks(job);
  ranks.start(1);
  ranks.state(1).start(InitialWeights(job.model, 3, 1));
  for (const char* moment : {"chunk0.moment1", "chunk0.moment2"})
    EXPECT_THAT(ranks.numbers(1, moment), Each(0.0f));
  bool found = false;
  for (const BucketLayout& bucket : ranks.state(1).buckets()) {
    for (const HeldTensor& t : bucket.tensors) {
      if (t.name != "embedding") continue;
      found = true;
      const std::vector<float> values = ranks.numbers(1, bucket.name + ".params");
      const std::vector<float> table(values.begin() + t.offset,
                                     values.begin() + t.offset + t.elements);
      EXPECT_THAT(table, SizeIs(8 * 4));
      EXPECT_THAT(table, Each(0.0f));
    }
  }
  EXPECT_TRUE(found);
}

TEST(RankState, SixteenBitParametersAreTheRoundedMaster) {
  for (const Precision precision : {Precision::bf16, Precision::fp16}) {
    Job job = tiny_job({});
    job.training.precision = precision;
    Ranks ranks(job);
    ranks.start(1);
    const bool brain = precision == Precision::bf16;
    int rounded = 0;
    for (const BucketLayout& bucket : ranks.state(0).buckets()) {
      const std::vector<float> master = ranks.numbers(0, bucket.name + ".master");
      const std::span<std::byte> params = ranks.flat(0, bucket.name + ".params");
      ASSERT_EQ(params.size(), 2 * master.size());
      for (std::size_t i = 0; i < master.size(); ++i) {
        std::uint16_t bits = 0;
        std::memcpy(&bits, &params[2 * i], 2);
        ASSERT_EQ(bits, brain ? to_bf16(master[i]) : to_fp16(master[i]));
        if ((brain ? from_bf16(bits) : from_fp16(bits)) != master[i]) ++rounded;
      }
    }
    // The master keeps what the parameters lose of all that starts at random: the tables of 5 and 3
    // rows of 4, and two layers of 4 * 12 + 4 * 4 + 2 * 4 * 8.
    EXPECT_EQ(rounded, 20 + 12 + 2 * 128);
  }
}

TEST(ThreadRankState, WithoutMomentsTheyStartAtZero) {
  TemporaryFolder folder;
  const Job job = odd_job({.data = 3, .zero = 1}, Precision::fp32);
  Ranks saved(job), loaded(job);
  saved.start(7);
  ASSERT_EQ(saved.save(folder.path()), "");
  loaded.load(CheckpointReader(CheckpointStore(folder.path()).folder(1)), false);
  for (std::int32_t r = 0; r < 3; ++r) {
    EXPECT_EQ(loaded.state(r).parameters(), saved.state(r).parameters());
    for (const BucketLayout& bucket : saved.state(r).buckets()) {
      EXPECT_THAT(saved.numbers(r, bucket.name + ".moment1"), Not(Each(0.0f)));
      EXPECT_THAT(loaded.numbers(r, bucket.name + ".moment1"), Each(0.0f));
      EXPECT_THAT(loaded.numbers(r, bucket.name + ".moment2"), Each(0.0f));
    }
  }
}

}  // namespace
}  // namespace trainyard
