#include <gtest/gtest.h>

#include "backends/cpu/cpu_backend.h"
#include "tests/backends/cpu/rank_threads.h"

namespace trainyard::testing {
namespace {

RanksRun train(const std::vector<std::string>& settings) {
  RanksRun run = run_ranks(small_job(settings), make_cpu_backend);
  EXPECT_EQ(run.first_problem(), "");
  return run;
}

// All streams, groups, overlaps and sharded states at once, a process's worth of threads a rank;
// conformance/layouts_test.py covers the combinations, with processes.
TEST(ThreadTraining, ManyRanksTrainAsOneDoes) {
  const RanksRun one = train({});
  for (const std::vector<std::string>& layout : std::vector<std::vector<std::string>>{
           {"parallel.tensor=2", "parallel.sequence=true", "parallel.data=2", "parallel.zero=1",
            R"(schedule.overlap=["tensor","data"])"},
           {"parallel.pipeline=2", "parallel.virtual_stages=2", "parallel.data=2",
            "parallel.zero=2", "schedule.pipeline=interleaved-1f1b",
            R"(schedule.overlap=["pipeline","data","prefetch","data_loading"])"},
           {"parallel.data=4", "parallel.zero=3", R"(schedule.overlap=["data","prefetch"])"},
           {"parallel.pipeline=4", "schedule.pipeline=zb-h1",
            R"(schedule.overlap=["pipeline","data_loading"])"}}) {
    const RanksRun many = train(layout);
    ASSERT_EQ(many.losses.size(), one.losses.size());
    for (std::size_t step = 0; step < one.losses.size(); ++step) {
      EXPECT_NEAR(many.losses[step] / one.losses[step], 1, kRoundingBound) << layout[0];
      EXPECT_NEAR(many.norms[step] / one.norms[step], 1, kRoundingBound) << layout[0];
    }
  }
}

}  // namespace
}  // namespace trainyard::testing
