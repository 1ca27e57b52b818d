#include "core/memory/memory_plan.h"

#include <gtest/gtest.h>

#include <numeric>

#include "core/plan/waits.h"
#include "tests/core/program/pipeline_program.h"
#include "tests/core/program/program_builder.h"
#include "tests/core/program/textbook.h"

namespace trainyard {
namespace {

std::int64_t offset(const Program& program, std::uint32_t buffer) {
  return program.buffers[buffer].offset.value;
}

void plan(Program& program) {
  derive_waits(program);
  plan_memory(program);
}

TEST(MemoryPlan, PersistentBuffersLieFirstAndViewsInsideTheirParent) {
  ProgramBuilder b;
  const auto t = b.buffer("t", 100), first = b.buffer("first", 300, true);
  const auto second = b.buffer("second", 512, true), half = b.view(second, 1, 2);
  const auto part = b.view(t, 1, 2);
  b.compute({r(first), w(t)});
  b.compute({r(half), r(part)});
  plan(b.program);
  EXPECT_EQ(offset(b.program, first), 0);
  EXPECT_EQ(offset(b.program, second), 512);  // 300 rounded up to 256s
  EXPECT_EQ(offset(b.program, half), 512 + 256);
  EXPECT_EQ(offset(b.program, t), 1024);
  EXPECT_EQ(offset(b.program, part), 1024 + 50);
  EXPECT_EQ(b.program.persistent_bytes, (Bytes{1024}));
  EXPECT_EQ(b.program.arena_bytes, (Bytes{1024 + 256}));
}

// a → b → c → d, each alive until the next is written: two places suffice.
TEST(MemoryPlan, AChainNeedsTwoPlaces) {
  ProgramBuilder b;
  std::uint32_t last = b.buffer("x");
  b.compute({w(last)});
  for (int i = 0; i < 6; ++i) {
    const auto next = b.buffer("x");
    b.compute({r(last), w(next)});
    last = next;
  }
  plan(b.program);
  EXPECT_EQ(b.program.arena_bytes, (Bytes{512}));
}

// The tensor stream may still read x when compute writes z: no wait orders the two.
TEST(MemoryPlan, MemoryInUseOnAnotherStreamIsNotTaken) {
  ProgramBuilder b;
  const auto x = b.buffer("x"), y = b.buffer("y"), z = b.buffer("z"), v = b.buffer("v");
  b.compute({w(x)});
  b.on(Stream::tensor, {r(x), w(y)});
  b.compute({w(z)});
  b.compute({r(y), w(v)});  // knows that the tensor stream has read x
  b.compute({r(z), r(v)});
  plan(b.program);
  EXPECT_NE(offset(b.program, x), offset(b.program, z));
  EXPECT_EQ(offset(b.program, x), offset(b.program, v));
}

TEST(MemoryPlan, BuffersThatNoInstructionUsesHaveNoPlace) {
  ProgramBuilder b;
  const auto unused = b.buffer("unused");
  plan(b.program);
  EXPECT_EQ(offset(b.program, unused), -1);
  EXPECT_EQ(b.program.arena_bytes, (Bytes{0}));
}

TEST(MemoryPlan, SharesMemoryOnlyBetweenOrderedUsesInRandomPrograms) {
  std::mt19937 random(9);
  int shared = 0;
  for (int round = 0; round < 300; ++round) {
    Program program = random_program(random, false);
    plan(program);
    const int pairs = Textbook(program).shared_memory();
    ASSERT_GE(pairs, 0) << to_text(program);
    shared += pairs;
  }
  EXPECT_GT(shared, 100);
}

// What is lost is the few tensors that other streams write, a gathered one (8 units) the largest,
// and sent or received ones that wait two passes: no more with more micro-batches or layers.
TEST(MemoryPlan, PipelinesLoseAFewPercentToFragmentation) {
  for (const int micro_batches : {4, 16, 40}) {
    for (int stage = 0; stage < 4; ++stage) {
      Program program = PipelineProgram({4, micro_batches, 8, 4096}, stage).build();
      plan(program);
      const MemoryUse use = memory_use(program);
      const Bytes held = std::accumulate(use.by_class.begin(), use.by_class.end(), Bytes{});
      EXPECT_LE(ratio(use.peak, held), 1.04) << "stage " << stage;
      EXPECT_LE((use.peak - held).value, 32 * 4096) << "stage " << stage;
      EXPECT_GE(ratio(use.peak, held), 1.0);
    }
  }
}

// Stage s of p keeps the activations of p - s micro-batches: 1F1B's bound.
TEST(MemoryPlan, ActivationsOfAStageGrowWithItsMicroBatchesInFlight) {
  std::vector<std::int64_t> transient;
  for (int stage = 0; stage < 4; ++stage) {
    Program program = PipelineProgram({4, 16, 8, 4096}, stage).build();
    plan(program);
    transient.push_back((program.arena_bytes - program.persistent_bytes).value);
  }
  // Kept a layer: norm 1, qkv 3, context 1, lse 1/16, middle 1, hidden 4, active 4.
  const double per_micro_batch = 8 * (14 + 1 / 16.0) * 4096;
  for (int stage = 0; stage < 3; ++stage)
    EXPECT_NEAR(static_cast<double>(transient[stage] - transient[stage + 1]) / per_micro_batch, 1,
                0.07);
}

TEST(MemoryUse, ListsWhatIsHeldAtThePeakByClass) {
  ProgramBuilder b;
  const auto p = b.buffer("p", 1000, true), x = b.buffer("x", 600), y = b.buffer("y", 300);
  const auto z = b.buffer("z", 50), unused = b.buffer("unused", 70, true);
  const auto memory = [&](std::uint32_t buffer) -> MemoryClass& {
    return b.program.buffer_types[b.program.buffers[buffer].type].memory;
  };
  memory(p) = memory(unused) = MemoryClass::parameters;
  memory(x) = memory(y) = MemoryClass::activations;
  b.pass(PassKind::forward, 0);
  b.compute({r(p), w(x)});
  b.pass(PassKind::backward, 0);
  b.compute({r(x), w(y)});  // the peak: p, x, y; y does not outlive its pass
  b.compute({r(y), w(z)});
  b.compute({r(z)});
  plan(b.program);
  const MemoryUse use = memory_use(b.program);
  EXPECT_EQ(use.by_class[static_cast<int>(MemoryClass::parameters)], (Bytes{1070}));
  EXPECT_EQ(use.by_class[static_cast<int>(MemoryClass::activations)], (Bytes{600}));
  EXPECT_EQ(use.by_class[static_cast<int>(MemoryClass::workspace)], (Bytes{300}));
  EXPECT_EQ(use.peak, (Bytes{1024 + 256 + 768 + 512}));
}

}  // namespace
}  // namespace trainyard
