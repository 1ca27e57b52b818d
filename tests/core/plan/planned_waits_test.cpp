#include <fmt/format.h>
#include <gtest/gtest.h>

#include "core/plan/plan.h"
#include "core/plan/validate.h"
#include "core/program/happens_before.h"
#include "core/program/text.h"
#include "tests/core/plan/jobs.h"

namespace trainyard {
namespace {

// Four layers, two micro-batches a data rank.
Job zero_2_job(std::int32_t pipeline, std::int32_t data, bool decoupled) {
  Job job = small_job(1, pipeline, data, 2);
  job.model.layers = 4, job.model.hidden = 16, job.model.heads = job.model.kv_heads = 2;
  job.model.head_dim = 8, job.model.ffn = 32, job.batch.sequence_length = 8;
  job.parallel.zero = 2;
  job.schedule.overlap.pipeline = job.schedule.overlap.data = decoupled;
  return job;
}

bool is_transfer(const Instr& instr) { return instr.op == Op::send || instr.op == Op::recv; }

// The first transfer that can start earlier than the schedule has it, or after which computation
// does not wait; "": there is none. A receive is posted when all that stands before it in the list
// is computed; without overlap of the pipeline that holds for sends too, and what stands behind
// waits for the transfer (Megatron-LM's coupled sends and receives).
std::string out_of_schedule(const Program& program, bool decoupled) {
  const HappensBefore order(program);
  for (std::uint32_t t = 0; t < program.code.size(); ++t) {
    if (!is_transfer(program.code[t])) continue;
    const bool receives = program.code[t].op == Op::recv;
    for (std::uint32_t c = 0; c < program.code.size(); ++c) {
      if (program.code[c].stream != Stream::compute) continue;
      const bool kept = c < t ? (decoupled && !receives) || order.ordered(c, t)
                              : decoupled || order.ordered(t, c);
      if (!kept) return fmt::format("{} and {}", t, c);
    }
  }
  return "";
}

// A wait that others imply would cost an event and order nothing.
TEST(PlannedWaits, NoneIsImpliedByTheOthers) {
  std::vector<Job> jobs{zero_2_job(2, 2, false), zero_2_job(2, 2, true), small_job(2, 2, 2, 4)};
  jobs[2].parallel.virtual_stages = 2;
  jobs[2].schedule.pipeline = Order::interleaved_1f1b;
  jobs[2].schedule.overlap = {.tensor = true, .pipeline = true, .data = true, .prefetch = true};
  jobs.push_back(zero_2_job(1, 4, true));
  jobs.back().parallel.zero = 3;
  int waits = 0;
  for (const Job& job : jobs)
    for (const auto& program : plan(job).by_stage)
      for (std::uint32_t i = 0; i < program->code.size(); ++i)
        for (std::size_t slot = 0; slot < 2; ++slot) {
          const std::uint32_t wait = program->code[i].waits[slot];
          if (wait == kNone) continue;
          Program without = *program;
          without.code[i].waits[slot] = kNone;
          EXPECT_FALSE(HappensBefore(without).ordered(wait, i))
              << i << " of stage " << program->stage << " waits for " << wait;
          ++waits;
        }
  EXPECT_GT(waits, 200);
}

// "validate() misses 2 deletions of 15": those waits order no accesses, they are when the schedule
// posts a receive, and that computation waits for a coupled send.
TEST(PlannedWaits, EachOneOrdersAccessesOrKeepsTheSchedule) {
  for (const bool decoupled : {false, true}) {
    const Job job = zero_2_job(2, 2, decoupled);
    const ProgramSet programs = plan(job);
    int accesses = 0, schedule = 0;
    for (std::size_t stage = 0; stage < 2; ++stage) {
      const Program& program = *programs.by_stage[stage];
      EXPECT_EQ(out_of_schedule(program, decoupled), "");
      for (std::uint32_t i = 0; i < program.code.size(); ++i)
        for (std::size_t slot = 0; slot < 2; ++slot) {
          if (program.code[i].waits[slot] == kNone) continue;
          auto without = std::make_shared<Program>(program);
          without->code[i].waits[slot] = kNone;
          ProgramSet mutated = programs;
          mutated.by_stage[stage] = without;
          if (!validate(mutated, job.mesh()).empty())
            ++accesses;
          else if (!out_of_schedule(*without, decoupled).empty())
            ++schedule;
          else
            ADD_FAILURE() << "without wait " << slot << " of " << i << ", stage " << stage;
        }
    }
    EXPECT_GT(accesses, 20);
    EXPECT_GT(schedule, 0);
  }
}

}  // namespace
}  // namespace trainyard
