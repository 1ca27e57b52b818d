#include "backends/common/rank_state.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cstring>
#include <functional>

#include "backends/common/number_formats.h"
#include "core/plan/plan.h"
#include "tests/backends/common/saved_runs.h"
#include "tests/temporary_folder.h"

namespace trainyard {
namespace {

using testing::Each;
using testing::Not;
using testing::SizeIs;

// The memory of every rank of a job, filled with bytes that no test expects.
class Ranks {
 public:
  explicit Ranks(const Job& job) : job_(job), programs_(plan(job)) {
    for (std::int32_t r = 0; r < job.mesh().size(); ++r) {
      const auto bytes = static_cast<std::size_t>(program(r).arena_bytes.value);
      memory_.emplace_back(bytes, std::byte{0xab});
      states_.emplace_back(job_, program(r), coord(r), memory_.back());
    }
  }

  // Initial weights of the seed, those of the next seed as the first moments and so on.
  void start(std::uint64_t seed) {
    const auto weights = [&](std::uint64_t s) {
      return InitialWeights(job_.model, job_.batch.sequence_length, s);
    };
    for (std::int32_t r = 0; r < size(); ++r) {
      RankState& state = states_[r];
      std::vector<std::vector<float>> moments;
      for (const std::uint64_t s : {seed + 1, seed + 2}) {
        state.start(weights(s));
        for (const BucketLayout& bucket : state.buckets())
          moments.push_back(numbers(r, stepped_weights(r, bucket.name)));
      }
      state.start(weights(seed));
      auto next = moments.begin();
      for (const char* moment : {"moment1", "moment2"})
        for (const BucketLayout& bucket : state.buckets())
          std::memcpy(flat(r, bucket.name + "." + moment).data(), next->data(), 4 * next->size()),
              ++next;
    }
  }

  std::string save(const std::filesystem::path& root) {
    std::vector<std::unique_ptr<CheckpointWriter>> writers;
    for (std::int32_t r = 0; r < size(); ++r)
      writers.push_back(std::make_unique<CheckpointWriter>(options_of(root, r, size())));
    for (std::int32_t r = 0; r < size(); ++r)
      writers[r]->start(manifest_of(job_, 1), states_[r].save());
    std::string problems;
    for (auto& writer : writers) problems += writer->wait();
    return problems;
  }
  void load(const CheckpointReader& reader, bool moments = true) {
    for (RankState& state : states_) state.load(reader, moments);
  }

  std::int32_t size() const { return static_cast<std::int32_t>(states_.size()); }
  RankState& state(std::int32_t rank) { return states_[rank]; }

  // A flat buffer that lasts, by its name ("chunk0.master"); no bytes if there is none.
  std::span<std::byte> flat(std::int32_t rank, const std::string& name) {
    for (const BufferSpec& spec : program(rank).buffers) {
      const BufferType& type = program(rank).buffer_types[spec.type];
      if (spec.parent == kNone && type.name == name && type.persistent)
        return std::span(memory_[rank]).subspan(spec.offset.value, type.size().value);
    }
    return {};
  }
  std::vector<float> numbers(std::int32_t rank, const std::string& name) {
    const std::span<std::byte> bytes = flat(rank, name);
    std::vector<float> values(bytes.size() / 4);
    std::memcpy(values.data(), bytes.data(), bytes.size());
    return values;
  }
  // The fp32 weights that the optimizer of this rank steps.
  std::string stepped_weights(std::int32_t rank, const std::string& bucket) {
    for (const char* what : {".master", ".param_shard"})
      if (!flat(rank, bucket + what).empty()) return bucket + what;
    return bucket + ".params";
  }

 private:
  Coord coord(std::int32_t rank) const { return job_.mesh().coord(RankId(rank)); }
  const Program& program(std::int32_t rank) const {
    return *programs_.by_stage[coord(rank)[Axis::pipeline]];
  }

  Job job_;
  ProgramSet programs_;
  std::vector<std::vector<std::byte>> memory_;
  std::vector<RankState> states_;
};

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

// Three layers, four heads, an odd vocabulary.
Job odd_job(const TinyLayout& layout, Precision precision) {
  Job job = tiny_job(layout);
  Model& m = job.model;
  m.layers = 3, m.hidden = 8, m.heads = m.kv_heads = 4, m.vocab = 7;
  job.training.precision = precision;
  if (layout.sequence) job.batch.sequence_length = 4;
  return job;
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
  };
}

void expect_any_layout_loads_any_other(const std::function<void(Job&)>& change) {
  std::vector<Ranks> saved, loaded;
  for (const OddLayout& layout : odd_layouts()) {
    Job job = odd_job(layout.layout, layout.precision);
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
