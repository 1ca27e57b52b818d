#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "backends/cuda/cuda_backend.h"
#include "core/plan/plan.h"
#include "core/program/accesses.h"
#include "tests/backends/cpu/rank_threads.h"
#include "tests/cuda_on_host/machine.h"
#include "tests/cuda_on_host/order_log.h"

namespace trainyard::testing {
namespace {

using cuda_on_host::LoggedWork;

// What rank `logged` gives its GPU in one step of the job; nothing is done there. `change` as in
// RanksHow.
std::vector<LoggedWork> work_of_a_step(const Job& job, std::int32_t logged, const auto& change) {
  const cuda_on_host::Machine usual = cuda_on_host::machine();
  cuda_on_host::machine().works = false;
  RanksHow how;
  how.steps = 1;
  how.change = [&](std::int32_t rank, Program& program) {
    if (rank == logged) change(program);
  };
  how.before_step = [&](std::int32_t rank, int, Program&) {
    if (rank == logged) cuda_on_host::log_order(rank);
  };
  const RanksRun run = run_ranks(job, make_cuda_backend, how);
  cuda_on_host::machine() = usual;
  EXPECT_EQ(run.first_problem(), "");
  return cuda_on_host::logged_order(logged);
}

// A piece of work that touches bytes of the arena.
struct Touch {
  std::uint32_t instr;
  std::size_t work;
  std::int64_t begin, end;
  bool writes;
};

std::vector<Touch> touches(const Program& program, const std::vector<LoggedWork>& log) {
  std::vector<Touch> all;
  for (std::size_t w = 0; w < log.size(); ++w) {
    if (log[w].range.empty()) continue;  // the step's inputs and results
    const auto first = static_cast<std::uint32_t>(std::stoul(log[w].range));
    for (std::uint32_t i = first;; ++i) {  // transfers that start together have one range
      for (const Operand o : operands_of(program, program.code[i])) {
        const std::int64_t begin = program.buffers[o.buffer].offset.value;
        all.push_back({first, w, begin, begin + program.buffer_size(o.buffer).value, o.writes()});
      }
      if ((program.code[i].flags & kGroupedWithNext) == 0) break;
    }
  }
  return all;
}

// Two instructions that touch the same bytes, one of them to write, in no sure order; "": none do.
std::string race(const Program& program, const std::vector<LoggedWork>& log) {
  const std::vector<Touch> all = touches(program, log);
  for (std::size_t b = 0; b < all.size(); ++b)
    for (std::size_t a = 0; a < b; ++a) {
      const Touch &first = all[a], &second = all[b];
      const bool apart = first.end <= second.begin || second.end <= first.begin;
      if (apart || first.instr == second.instr || (!first.writes && !second.writes)) continue;
      if (!cuda_on_host::ordered(log[first.work], log[second.work]))
        return fmt::format("{} and {}", log[first.work].range, log[second.work].range);
    }
  return "";
}

TEST(CudaWaits, OrderAllAccessesToTheSameMemory) {
  for (const std::vector<std::string>& layout : std::vector<std::vector<std::string>>{
           {"parallel.tensor=2", "parallel.sequence=true",
            "schedule.overlap=[\"tensor\",\"data_loading\"]", "schedule.tensor_chunks=2"},
           {"parallel.pipeline=2", "parallel.virtual_stages=2",
            "schedule.pipeline=interleaved-1f1b", "schedule.overlap=[\"pipeline\"]"},
           {"parallel.data=2", "parallel.zero=2", "schedule.overlap=[\"data\"]"}}) {
    const Job job = small_job(layout);
    const std::vector<LoggedWork> log = work_of_a_step(job, 0, [](Program&) {});
    ASSERT_GT(log.size(), 100U);
    EXPECT_EQ(race(*plan(job).by_stage[0], log), "") << layout[0];
  }
}

bool is_transfer(const Instr& instr) { return instr.op == Op::send || instr.op == Op::recv; }

// The first transfer beside which the rank may compute; "": none. Without overlap of the pipeline
// it never does (Megatron-LM's coupled sends and receives).
std::string uncoupled(const Program& program, const std::vector<LoggedWork>& log) {
  const auto instr = [&](std::size_t w) { return program.code[std::stoul(log[w].range)]; };
  for (std::size_t b = 0; b < log.size(); ++b)
    for (std::size_t a = 0; a < b; ++a) {
      if (log[a].range.empty() || log[b].range.empty()) continue;
      const Instr first = instr(a), second = instr(b);
      const bool transfer = is_transfer(first) || is_transfer(second);
      const bool computes = first.stream == Stream::compute || second.stream == Stream::compute;
      if (transfer && computes && !cuda_on_host::ordered(log[a], log[b]))
        return fmt::format("{} and {}", log[a].range, log[b].range);
    }
  return "";
}

// Without each wait of the rank's program in turn two instructions touch the same memory in no sure
// order, or the rank computes beside a coupled transfer. Returns how many waits it has.
int expect_each_wait_is_missed(const Job& job, std::int32_t rank) {
  const auto stage = static_cast<std::size_t>(job.mesh().coord(RankId(rank))[Axis::pipeline]);
  const ProgramSet programs = plan(job);
  const Program& program = *programs.by_stage[stage];
  int waits = 0;
  for (std::uint32_t i = 0; i < program.code.size(); ++i)
    for (std::size_t slot = 0; slot < program.code[i].waits.size(); ++slot) {
      if (program.code[i].waits[slot] == kNone) continue;
      const auto log =
          work_of_a_step(job, rank, [&](Program& p) { p.code[i].waits[slot] = kNone; });
      EXPECT_NE(race(program, log) + uncoupled(program, log), "")
          << "without wait " << slot << " of instruction " << i << ", stage " << stage;
      ++waits;
    }
  return waits;
}

TEST(CudaWaits, WithoutAnyOneOfThemTwoInstructionsRace) {
  EXPECT_GT(expect_each_wait_is_missed(
                small_job({"model.layers=1", "parallel.tensor=2", "batch.global_sequences=2"}), 0),
            20);
}

TEST(CudaWaits, OfAPipelineWithShardedGradientsAreEachNeeded) {
  const Job job =
      small_job({"model.layers=2", "parallel.pipeline=2", "parallel.data=2", "parallel.zero=2"});
  EXPECT_EQ(uncoupled(*plan(job).by_stage[0], work_of_a_step(job, 0, [](Program&) {})), "");
  for (const std::int32_t rank : {0, 2}) EXPECT_GT(expect_each_wait_is_missed(job, rank), 10);
}

#if defined(__SANITIZE_THREAD__)
// That the thread sanitizer finds nothing in trainings of this suite's sort says something: it
// finds the race of two streams that no event orders any more. The process that has it is another
// one.
TEST(ThreadCudaWaits, OneThatIsMissingIsSeenByTheThreadSanitizer) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const Job job = small_job({"model.layers=1", "parallel.tensor=2", "batch.global_sequences=2"});
  RanksHow how;
  how.steps = 1;
  how.change = [](std::int32_t rank, Program& program) {
    if (rank > 0) return;
    for (Instr& instr : program.code)
      if (instr.stream == Stream::compute && instr.waits[0] != kNone &&
          program.code[instr.waits[0]].stream == Stream::tensor) {
        instr.waits[0] = kNone;
        return;
      }
  };
  EXPECT_EXIT(
      {
        run_ranks(job, make_cuda_backend, how);
        std::exit(0);
      },
      ::testing::ExitedWithCode(66), "ThreadSanitizer: data race");
}
#endif

}  // namespace
}  // namespace trainyard::testing
