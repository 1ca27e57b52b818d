#pragma once
#include <functional>
#include <string>
#include <vector>

#include "backends/common/real_backend.h"
#include "core/config/job.h"
#include "core/program/program.h"

namespace trainyard::testing {

using MakeRank =
    std::function<std::unique_ptr<RealBackend>(const Job& job, const RealBackendOptions& options)>;

// How steps of all ranks of a job went, each rank a thread of this process.
struct RanksRun {
  std::vector<double> losses, norms;            // of each step
  std::vector<std::string> problems;            // of each rank; empty: none
  std::vector<std::vector<TraceEvent>> traces;  // of each rank, of the last step, if traced
  std::string first_problem() const;
};

struct RanksHow {
  int steps = 3;
  bool traced = false;  // the last step
  // What rank `rank` runs instead of its stage's program, if it is there.
  std::function<void(std::int32_t rank, Program& program)> change;
  // Called by each rank before each step, whose program it may replace.
  std::function<void(std::int32_t rank, int step, Program& program)> before_step;
};

// By how much losses and norms of layouts may differ: fp32 sums of n terms in another order do by
// about sqrt(n) 2^-24 of their size; see tests/conformance/layouts_test.py, whose bound this is.
constexpr double kRoundingBound = 2e-5;

// Trains from the weights of the job's seed on random tokens that depend on the step alone.
RanksRun run_ranks(const Job& job, const MakeRank& make, const RanksHow& how = {});

// Losses and norms of two runs are the same but for rounding.
void expect_alike(const RanksRun& got, const RanksRun& expected);

// A small model, 3 layers or as many as its stages need, with `settings` such as
// "parallel.tensor=2".
Job small_job(const std::vector<std::string>& settings);

}  // namespace trainyard::testing
