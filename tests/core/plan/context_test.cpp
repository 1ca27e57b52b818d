#include <gtest/gtest.h>

#include <set>

#include "core/plan/stage.h"
#include "core/program/context_tokens.h"
#include "tests/core/plan/jobs.h"

namespace trainyard {
namespace {

// 16 tokens in 2 x 2 pieces of 4: rank 0 has the outer ones, rank 1 the inner ones.
TEST(ContextTokens, ARankHasOnePieceFromEitherEnd) {
  constexpr ContextTokens of{16, 2};
  std::vector<std::int64_t> outer, inner;
  for (std::int64_t i = 0; i < of.own(); ++i) outer.push_back(of.place(0, i));
  for (std::int64_t i = 0; i < of.own(); ++i) inner.push_back(of.place(1, i));
  EXPECT_EQ(outer, (std::vector<std::int64_t>{0, 1, 2, 3, 12, 13, 14, 15}));
  EXPECT_EQ(inner, (std::vector<std::int64_t>{4, 5, 6, 7, 8, 9, 10, 11}));
}

// A token at place p sees p + 1 keys: of 24 tokens 300, so 100 for each of three ranks.
TEST(ContextTokens, AllRanksSeeEquallyManyKeysAndHoldEveryTokenOnce) {
  constexpr ContextTokens of{24, 3};
  std::set<std::int64_t> places;
  for (std::int64_t rank = 0; rank < of.ranks; ++rank) {
    std::int64_t keys = 0;
    for (std::int64_t i = 0; i < of.own(); ++i) {
      const std::int64_t place = of.place(rank, i);
      places.insert(place);
      keys += place + 1;
      EXPECT_EQ(of.holder(place).rank, rank);
      EXPECT_EQ(of.holder(place).index, i);
    }
    EXPECT_EQ(keys, 100);
  }
  EXPECT_EQ(places.size(), 24U);
}

Job context_job(std::int32_t context) {
  Job job = small_job(1, 1, 1, 2);
  job.model.kv_heads = 2;
  job.parallel.context = context;
  return job;
}

struct Traffic {
  int calls = 0;
  std::int64_t bytes = 0;
};
Traffic traffic(const Program& program, Op op) {
  Traffic sum;
  for (const Instr& i : program.code)
    if (i.op == op && i.group == Group::context) ++sum.calls, sum.bytes += i.bytes.value;
  return sum;
}

// Keys and values of 128 tokens, 2 heads of 32 in bf16: 128 * 2 * 2 * 32 * 2 bytes. They are
// gathered in the forward and in the backward pass of 8 layers and 2 micro-batches, where their
// gradients are scattered once; nothing else is among context ranks.
TEST(ContextParallelism, GathersKeysAndValuesTwiceAndScattersTheirGradientsOnce) {
  const Program program = assemble_stage(context_job(4), 0);
  const std::int64_t bytes = 128 * 2 * 2 * 32 * 2;
  const Traffic gathered = traffic(program, Op::all_gather);
  const Traffic scattered = traffic(program, Op::reduce_scatter);
  EXPECT_EQ(gathered.calls, 2 * 8 * 2);
  EXPECT_EQ(gathered.bytes, gathered.calls * bytes);
  EXPECT_EQ(scattered.calls, 8 * 2);
  EXPECT_EQ(scattered.bytes, scattered.calls * bytes);
  EXPECT_EQ(traffic(program, Op::all_reduce).calls, 0);
}

// Forward passes that are done again gather once more.
TEST(ContextParallelism, FullRecomputationGathersOnceMore) {
  Job job = context_job(2);
  job.training.recompute = Recompute::full;
  EXPECT_EQ(traffic(assemble_stage(job, 0), Op::all_gather).calls, 3 * 8 * 2);
}

double flops(const Program& program) {
  double sum = 0;
  for (const Instr& i : program.code)
    if (i.op == Op::kernel) sum += program.kernels[i.what].flops;
  return sum;
}

TEST(ContextParallelism, SharesTheArithmeticOfOneRankEqually) {
  for (const std::int64_t window : {0, 40})
    for (const std::int32_t context : {2, 4, 8}) {
      Job job = context_job(context), one = context_job(1);
      job.model.window = one.model.window = window;
      EXPECT_DOUBLE_EQ(flops(assemble_stage(job, 0)) * context, flops(assemble_stage(one, 0)));
    }
}

std::int64_t bytes_of(const Job& job, MemoryClass memory) {
  const Program program = assemble_stage(job, 0);
  std::int64_t sum = 0;
  for (std::uint32_t b = 0; b < program.buffers.size(); ++b)
    if (program.buffers[b].parent == kNone &&
        program.buffer_types[program.buffers[b].type].memory == memory)
      sum += program.buffer_size(b).value;
  return sum;
}

// Optimizer state is split over data and context ranks as over data ranks alone.
TEST(ContextParallelism, ReplicasShareTheOptimizer) {
  Job context = context_job(2), data = context_job(1);
  context.parallel.zero = data.parallel.zero = 1;
  data.parallel.data = 2;
  data.batch.global_sequences *= 2;
  EXPECT_EQ(bytes_of(context, MemoryClass::optimizer), bytes_of(data, MemoryClass::optimizer));
}

TEST(ContextParallelism, ActivationsAreOfOwnTokensOnly) {
  EXPECT_EQ(4 * bytes_of(context_job(4), MemoryClass::activations),
            bytes_of(context_job(1), MemoryClass::activations));
}

}  // namespace
}  // namespace trainyard
