#include "core/plan/waits.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "core/program/happens_before.h"
#include "tests/core/program/program_builder.h"
#include "tests/core/program/textbook.h"

namespace trainyard {
namespace {

using ::testing::ElementsAre;

constexpr Stream kTensor = Stream::tensor, kData = Stream::data;

std::vector<std::uint32_t> waits(const Program& program, std::size_t instr) {
  std::vector<std::uint32_t> result;
  for (const std::uint32_t wait : program.code[instr].waits)
    if (wait != kNone) result.push_back(wait);
  return result;
}

TEST(Waits, ReadWaitsForTheLatestWriteOnAnotherStream) {
  ProgramBuilder b;
  const auto x = b.buffer("x");
  b.compute({w(x)});
  b.compute({u(x)});
  b.on(kTensor, {r(x)});
  derive_waits(b.program);
  EXPECT_THAT(waits(b.program, 1), ElementsAre());
  EXPECT_THAT(waits(b.program, 2), ElementsAre(1));
}

TEST(Waits, WriteWaitsForReadsOnOtherStreamsAndReadsDoNotWaitForReads) {
  ProgramBuilder b;
  const auto x = b.buffer("x");
  b.compute({w(x)});
  b.on(kTensor, {r(x)});  // 1
  b.on(kData, {r(x)});    // 2: after 0, not after 1
  b.compute({w(x)});      // 3: after both readers
  derive_waits(b.program);
  EXPECT_THAT(waits(b.program, 1), ElementsAre(0));
  EXPECT_THAT(waits(b.program, 2), ElementsAre(0));
  EXPECT_THAT(waits(b.program, 3), ElementsAre(2, 1));
}

TEST(Waits, WhatAnotherWaitImpliesIsNotWaitedForAgain) {
  ProgramBuilder b;
  const auto x = b.buffer("x"), y = b.buffer("y");
  b.compute({w(x)});
  b.on(kTensor, {r(x), w(y)});  // 1
  b.on(kData, {r(y)});          // 2: knows 1, hence 0
  b.on(kData, {r(x)});          // 3: 0 is known
  b.compute({w(x), w(y)});      // 4: readers of x are 1 and 3, of y 2; 3 implies all
  derive_waits(b.program);
  EXPECT_THAT(waits(b.program, 2), ElementsAre(1));
  EXPECT_THAT(waits(b.program, 3), ElementsAre());
  EXPECT_THAT(waits(b.program, 4), ElementsAre(3));
}

TEST(Waits, PartsConflictWithTheWholeAndThemselvesOnly) {
  ProgramBuilder b;
  const auto x = b.buffer("x");
  const auto first = b.view(x, 0, 2), second = b.view(x, 1, 2), again = b.view(x, 1, 2);
  const auto column = b.view(x, 0, 2, 1);
  b.compute({w(first)});
  b.compute({w(second)});
  b.on(kTensor, {r(first)});        // 2
  b.on(kTensor, {r(again)});        // 3
  b.on(kData, {r(x)});              // 4
  b.on(Stream::copy, {r(column)});  // 5: crosses both parts
  b.compute({w(x)});                // 6: after 5, 4 and 3
  b.on(kTensor, {r(first)});        // 7
  derive_waits(b.program);
  EXPECT_THAT(waits(b.program, 2), ElementsAre(0));
  EXPECT_THAT(waits(b.program, 3), ElementsAre(1));
  EXPECT_THAT(waits(b.program, 4), ElementsAre(1));
  EXPECT_THAT(waits(b.program, 5), ElementsAre(1));
  ASSERT_EQ(b.program.code[6].op, Op::join);
  EXPECT_EQ(b.program.code[6].stream, Stream::compute);
  EXPECT_THAT(waits(b.program, 6), ElementsAre(5, 4));
  EXPECT_THAT(waits(b.program, 7), ElementsAre(3));
  EXPECT_THAT(waits(b.program, 8), ElementsAre(7));
}

TEST(Waits, WorkOfTheHostBlocksTheIssueOfAllThatFollows) {
  ProgramBuilder b;
  const auto x = b.buffer("x");
  b.on(kTensor, {w(x)});
  b.on(Stream::host, {r(x)});
  b.compute({w(x)});
  derive_waits(b.program);
  EXPECT_THAT(waits(b.program, 1), ElementsAre(0));
  EXPECT_THAT(waits(b.program, 2), ElementsAre());
}

TEST(Waits, GroupedTransfersStartTogetherAfterTheWaitsOfAll) {
  ProgramBuilder b;
  const auto out = b.buffer("out"), in = b.buffer("in");
  b.compute({r(in), w(out)});
  b.compute({r(out)});
  b.send(1, 0, out, true);
  b.recv(-1, 1, in);
  b.compute({r(in)});
  b.compute({w(out)});
  derive_waits(b.program);
  EXPECT_THAT(waits(b.program, 2), ElementsAre(0));  // reads of 1 do not matter
  EXPECT_THAT(waits(b.program, 3), ElementsAre());   // 0 has read `in`; the group waits for it
  EXPECT_THAT(waits(b.program, 4), ElementsAre(3));
  EXPECT_THAT(waits(b.program, 5), ElementsAre());  // 3 and 2 end together
}

TEST(Waits, PlannedWaitsAreKeptUnlessImplied) {
  ProgramBuilder b;
  const auto x = b.buffer("x"), y = b.buffer("y");
  b.compute({w(x)});
  b.compute({w(y)});
  b.on(kTensor, {r(x)});
  b.on(kData, {r(y)});
  b.program.code[2].waits[0] = 1;
  b.program.code[3].waits[0] = 0;
  derive_waits(b.program);
  EXPECT_THAT(waits(b.program, 2), ElementsAre(1));
  EXPECT_THAT(waits(b.program, 3), ElementsAre(1));
}

TEST(Waits, DerivingAgainChangesNothing) {
  ProgramBuilder b;
  const auto x = b.buffer("x");
  b.compute({w(x)});
  for (const Stream s : {kTensor, kData, Stream::copy}) b.on(s, {r(x)});
  b.compute({w(x)});
  derive_waits(b.program);
  const std::uint64_t hash = program_hash(set_of({b.program}));
  derive_waits(b.program);
  EXPECT_EQ(program_hash(set_of({b.program})), hash);
}

// A buffer that compute fills and a transfer empties: the pass two later, not the next, waits for
// the transfer before it takes memory.
TEST(Waits, LastUsesOnOtherStreamsAreWaitedForTwoPassesLater) {
  ProgramBuilder b;
  for (int m = 0; m < 4; ++m) {
    b.pass(PassKind::forward, m);
    const auto out = b.buffer("out"), scratch = b.buffer("scratch");
    b.compute({w(scratch)});          // 3 m
    b.compute({r(scratch), w(out)});  // 3 m + 1
    b.send(1, m, out);                // 3 m + 2
  }
  derive_waits(b.program);
  EXPECT_THAT(waits(b.program, 3), ElementsAre());
  EXPECT_THAT(waits(b.program, 6), ElementsAre(2));
  EXPECT_THAT(waits(b.program, 9), ElementsAre(5));
  EXPECT_THAT(waits(b.program, 10), ElementsAre());
}

// Receives write memory that compute releases, so they may not run ahead without bound.
TEST(Waits, ReceivesRunAtMostTwoPassesAhead) {
  ProgramBuilder b;
  for (int m = 0; m < 4; ++m) {
    b.pass(PassKind::forward, m);
    const auto in = b.buffer("in"), x = b.buffer("x");
    b.recv(-1, m, in);         // 2 m
    b.compute({r(in), w(x)});  // 2 m + 1
  }
  derive_waits(b.program);
  EXPECT_THAT(waits(b.program, 2), ElementsAre());
  EXPECT_THAT(waits(b.program, 4), ElementsAre());
  EXPECT_THAT(waits(b.program, 6), ElementsAre(1));
}

// Marks pairs of independent neighbours as groups.
void group_some(Program& program, std::mt19937& random) {
  const Textbook conflicts(program);
  for (std::size_t i = 0; i + 1 < program.code.size(); i += 2)
    if (random() % 4 == 0 && !conflicts.conflict(i, i + 1) &&
        program.code[i].stream != Stream::host && program.code[i + 1].stream != Stream::host)
      program.code[i].flags = kGroupedWithNext;
}

TEST(Waits, OrderEveryConflictInRandomPrograms) {
  std::mt19937 random(7);
  for (int round = 0; round < 400; ++round) {
    Program program = random_program(random);
    group_some(program, random);
    derive_waits(program);
    const Textbook textbook(program);
    ASSERT_TRUE(textbook.all_conflicts_ordered()) << to_text(program);
    const HappensBefore order(program);
    for (std::size_t j = 0; j < program.code.size(); ++j)
      for (std::size_t i = 0; i < j; ++i)
        ASSERT_EQ(order.ordered(i, j), textbook.ordered(i, j)) << to_text(program) << i << j;
  }
}

TEST(Waits, AreFewestInRandomPrograms) {
  std::mt19937 random(8);
  int removed = 0;
  for (int round = 0; round < 60; ++round) {
    Program program = random_program(random);
    group_some(program, random);
    derive_waits(program);
    const std::size_t n = program.code.size();
    for (std::size_t k = 0; k < 2 * n; ++k) {
      std::uint32_t& wait = program.code[k / 2].waits[k % 2];
      if (wait == kNone) continue;
      const std::uint32_t kept = std::exchange(wait, kNone);
      ASSERT_FALSE(Textbook(program).all_conflicts_ordered())
          << to_text(program) << "wait of " << k / 2 << " for " << kept;
      wait = kept;
      ++removed;
    }
  }
  EXPECT_GT(removed, 500);
}

}  // namespace
}  // namespace trainyard
