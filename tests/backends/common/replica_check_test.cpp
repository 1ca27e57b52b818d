#include "backends/common/replica_check.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <barrier>
#include <mutex>
#include <thread>

#include "tests/backends/common/ranks.h"

namespace trainyard {
namespace {

using testing::Each;
using testing::HasSubstr;

// What each rank is told when all ranks, a thread each, compare their replicas.
std::vector<std::string> told_differences(Ranks& ranks, const Mesh& mesh) {
  std::vector<double> total;
  std::mutex mutex;
  std::barrier all(ranks.size(), [] {});
  const auto sum = [&](std::span<double> values) {
    {
      const std::lock_guard lock(mutex);
      total.resize(values.size());
      for (std::size_t i = 0; i < values.size(); ++i) total[i] += values[i];
    }
    all.arrive_and_wait();
    std::ranges::copy(total, values.begin());
    all.arrive_and_wait();
    {
      const std::lock_guard lock(mutex);
      total.clear();
    }
    all.arrive_and_wait();
  };
  std::vector<std::string> told(static_cast<std::size_t>(ranks.size()));
  {
    std::vector<std::jthread> threads;
    for (std::int32_t r = 0; r < ranks.size(); ++r)
      threads.emplace_back(
          [&, r] { told[r] = replica_differences(ranks.state(r), mesh, RankId(r), sum); });
  }
  return told;
}

// What ranks are told when one of them holds another bit, in the `part` of its first bucket or of
// the tied table.
std::vector<std::string> told_of_flip(TinyLayout layout, std::int32_t rank, const char* part,
                                      bool tied = false) {
  const Job job = odd_job(layout, Precision::bf16);
  Ranks ranks(job);
  ranks.start(7);
  EXPECT_THAT(told_differences(ranks, job.mesh()), Each(""));
  const auto bucket = std::ranges::find(ranks.state(rank).buckets(), tied, &BucketLayout::tied);
  const auto bytes = ranks.flat(rank, bucket->name + part);
  EXPECT_FALSE(bytes.empty());
  if (!bytes.empty()) bytes.front() ^= std::byte{1};
  return told_differences(ranks, job.mesh());
}

// Ranks are numbered tensor first, then data, then pipeline.
TEST(ThreadReplicaCheck, NamesTheRanksWhoseCopiesDiffer) {
  const TinyLayout replicated{.tensor = 2, .pipeline = 3, .data = 2};
  EXPECT_THAT(told_of_flip(replicated, 1, ".params"), Each(HasSubstr("ranks 1, 3 ")));
  EXPECT_THAT(told_of_flip(replicated, 6, ".moment2"), Each(HasSubstr("ranks 4, 6 ")));
  // A norm, which is not split.
  EXPECT_THAT(told_of_flip({.tensor = 2, .pipeline = 3}, 3, ".master"),
              Each(HasSubstr("ranks 2, 3 ")));
  EXPECT_THAT(told_of_flip({.pipeline = 3}, 2, ".moment1", true), Each(HasSubstr("ranks 0, 2 ")));
}

}  // namespace
}  // namespace trainyard
