#include "tests/backends/cpu/rank_threads.h"

#include <gtest/gtest.h>

#include <exception>
#include <map>
#include <mutex>
#include <thread>

#include "backends/common/patience.h"
#include "backends/common/rank_state.h"
#include "backends/common/store.h"
#include "core/config/load.h"
#include "core/plan/plan.h"
#include "core/random.h"

namespace trainyard::testing {
namespace {

// A store of this process.
class SharedValues {
 public:
  void set(std::string_view key, std::string_view value) {
    const std::lock_guard lock(mutex_);
    values_[std::string(key)] = value;
  }
  std::optional<std::string> get(std::string_view key) {
    const std::lock_guard lock(mutex_);
    const auto found = values_.find(key);
    return found == values_.end() ? std::nullopt : std::optional(found->second);
  }

 private:
  std::mutex mutex_;
  std::map<std::string, std::string, std::less<>> values_;
};

class StoreOfRank final : public Store {
 public:
  explicit StoreOfRank(SharedValues& values) : values_(values) {}
  void set(std::string_view key, std::string_view value) override { values_.set(key, value); }
  std::optional<std::string> get(std::string_view key) override { return values_.get(key); }

 private:
  SharedValues& values_;
};

// Rows of the whole batch are numbered; a data rank has its share of them.
class RandomRows final : public BatchFeed {
 public:
  RandomRows(const Job& job, std::int32_t data_rank)
      : job_(job),
        rows_(job.batch.global_sequences / job.parallel.data),
        first_(data_rank * rows_) {}

  std::span<const std::int32_t> batch(std::int64_t step) override {
    const std::int64_t columns = job_.batch.sequence_length + 1;
    const PhiloxKey key = random_key(static_cast<std::uint64_t>(step), "rows");
    tokens_.clear();
    for (std::int64_t i = first_ * columns; i < (first_ + rows_) * columns; ++i)
      tokens_.push_back(static_cast<std::int32_t>(philox(key, static_cast<std::uint64_t>(i))[0] %
                                                  static_cast<std::uint64_t>(job_.model.vocab)));
    return tokens_;
  }

 private:
  const Job& job_;
  std::int64_t rows_, first_;
  std::vector<std::int32_t> tokens_;
};

class OneRank {
 public:
  OneRank(const Job& job, std::int32_t rank, const RanksHow& how)
      : job_(job), rank_(rank), how_(how), coord_(job.mesh().coord(RankId(rank))) {}

  void run(const MakeRank& make, const ProgramSet& programs, SharedValues& values,
           RanksRun& result) {
    Program program = *programs.by_stage[static_cast<std::size_t>(coord_[Axis::pipeline])];
    if (how_.change) how_.change(rank_, program);
    StoreOfRank store(values);
    RealBackendOptions options;
    options.rank = RankId(rank_);
    options.place = rank_;
    options.store = &store;
    options.memory = program.arena_bytes;
    const std::unique_ptr<RealBackend> backend = make(job_, options);
    RankState state(job_, program, coord_, backend->memory());
    backend->connect(job_.mesh());
    state.start(InitialWeights(job_.model, job_.batch.sequence_length, job_.seed));
    RandomRows rows(job_, coord_[Axis::data]);
    for (int step = 0; step < how_.steps; ++step) {
      if (how_.before_step) how_.before_step(rank_, step, program);
      backend->submit(RankId(rank_), program, inputs(step, rows));
      const StepReport report = backend->wait(kNever);
      if (report.outcome != Outcome::done) throw std::runtime_error(report.message);
      tell(*backend, report, result);
    }
  }

 private:
  StepInputs inputs(int step, RandomRows& rows) const {
    StepInputs in;
    in.step = step;
    in.feed = &rows;
    in.valid_tokens = job_.batch.global_sequences * job_.batch.sequence_length;
    in.update = step + 1;
    in.learning_rate = job_.optimization.learning_rate;
    in.traced = how_.traced && step + 1 == how_.steps;
    return in;
  }

  void tell(RealBackend& backend, const StepReport& report, RanksRun& result) const {
    const bool last_stage = coord_[Axis::pipeline] == job_.parallel.pipeline - 1;
    std::array<double, 2> sums{};
    if (last_stage && coord_[Axis::tensor] == 0 && coord_[Axis::data] == 0) sums = {report.loss, 1};
    backend.sum_over_ranks(sums);
    result.traces[static_cast<std::size_t>(rank_)] = report.trace;
    if (rank_ > 0) return;
    result.losses.push_back(sums[0] / sums[1]);
    result.norms.push_back(report.gradient_norm);
  }

  const Job& job_;
  std::int32_t rank_;
  const RanksHow& how_;
  Coord coord_;
};

}  // namespace

std::string RanksRun::first_problem() const {
  for (const std::string& problem : problems)
    if (!problem.empty()) return problem;
  return "";
}

RanksRun run_ranks(const Job& job, const MakeRank& make, const RanksHow& how) {
  const ProgramSet programs = plan(job);
  SharedValues values;
  RanksRun result;
  const auto ranks = static_cast<std::size_t>(job.mesh().size());
  result.problems.resize(ranks);
  result.traces.resize(ranks);
  std::vector<std::jthread> threads;
  for (std::size_t r = 0; r < ranks; ++r)
    threads.emplace_back([&, r] {
      try {
        OneRank(job, static_cast<std::int32_t>(r), how).run(make, programs, values, result);
      } catch (const std::exception& error) {
        result.problems[r] = error.what();
      }
    });
  threads.clear();
  return result;
}

void expect_alike(const RanksRun& got, const RanksRun& expected) {
  ASSERT_EQ(got.losses.size(), expected.losses.size());
  for (std::size_t step = 0; step < expected.losses.size(); ++step) {
    EXPECT_NEAR(got.losses[step] / expected.losses[step], 1, kRoundingBound) << "step " << step;
    EXPECT_NEAR(got.norms[step] / expected.norms[step], 1, kRoundingBound) << "step " << step;
  }
}

Job small_job(const std::vector<std::string>& settings) {
  std::vector<std::string> sets{"model.layers=4",
                                "model.hidden=16",
                                "model.heads=2",
                                "model.ffn=32",
                                "model.vocab=37",
                                "batch.global_sequences=4",
                                "batch.micro_sequences=1",
                                "batch.sequence_length=8",
                                "training.precision=fp32",
                                "training.optimizer=adamw",
                                "training.learning_rate=1e-2",
                                "training.epsilon=1e-3",
                                "training.clip=1",
                                "training.vocab_divisible_by=1",
                                "training.steps=3",
                                "cluster.preset=a100-8",
                                "cluster.node.gpus=8",
                                "run.timeout_s=20"};
  sets.insert(sets.end(), settings.begin(), settings.end());
  return load_job({}, sets, TRAINYARD_SCENARIOS);
}

}  // namespace trainyard::testing
