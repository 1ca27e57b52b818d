#include "core/report/step_compare.h"

#include <gtest/gtest.h>

#include <cmath>

#include "core/error.h"

namespace trainyard {
namespace {

constexpr std::uint32_t kGemm = 0, kNorm = 1, kSum = 2;

// Two ranks; each runs a GEMM, a norm and, on the data stream, an all-reduce. Times in ns:
//   rank 0: gemm 0-10, norm 12-15, all_reduce 15-20
//   rank 1: gemm 0-10, norm 10-13, all_reduce 13-20
TracedStep base() {
  TracedStep step;
  step.program_hash = "00000000000000aa";
  step.works = {{"gemm_forward", "", Stream::compute},
                {"norm_forward", "", Stream::compute},
                {"all_reduce", "data", Stream::data}};
  step.passes = {{"forward", 0, 3}, {}};
  const auto add = [&](std::int32_t rank, std::uint32_t instr, Time start, Time end) {
    step.instrs.push_back({rank, instr, start, end, instr, instr == kSum ? 1U : 0U});
  };
  add(0, kGemm, {0}, {10});
  add(0, kNorm, {12}, {15});
  add(0, kSum, {15}, {20});
  add(1, kGemm, {0}, {10});
  add(1, kNorm, {10}, {13});
  add(1, kSum, {13}, {20});
  return step;
}

// The GEMM of rank 1 takes 10 ns more, and all that follows it is later:
//   rank 0: gemm 0-10, norm 12-15, all_reduce 15-30
//   rank 1: gemm 0-20, norm 20-23, all_reduce 23-30
TracedStep slow_gemm() {
  TracedStep step = base();
  step.instrs[2].end = {30};
  step.instrs[3].end = {20};
  step.instrs[4].start = {20};
  step.instrs[4].end = {23};
  step.instrs[5].start = {23};
  step.instrs[5].end = {30};
  return step;
}

std::string message_of(const TracedStep& a, const TracedStep& b) {
  try {
    compare_steps(a, b, 10);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

TEST(StepCompare, SplitsAStreamIntoClassesAndWaiting) {
  const StepComparison out = compare_steps(base(), slow_gemm(), 10);
  EXPECT_EQ(out.step.a, Time{20});
  EXPECT_EQ(out.step.b, Time{30});
  EXPECT_EQ(out.instructions, 6);
  // Compute of two ranks: 40 ns in A, of which 20 + 6 are kernels; 60 in B, of which 30 + 6 are.
  // Data: 5 + 7 of 40 ns, and 15 + 7 of 60.
  struct Row {
    Stream stream;
    const char* what;
    std::int64_t instructions, a, b;
  };
  const std::vector<Row> expected{{Stream::compute, "gemm_forward", 2, 20, 30},
                                  {Stream::compute, "norm_forward", 2, 6, 6},
                                  {Stream::compute, "waiting", 0, 14, 24},
                                  {Stream::data, "all_reduce data", 2, 12, 22},
                                  {Stream::data, "waiting", 0, 28, 38}};
  ASSERT_EQ(out.classes.size(), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    SCOPED_TRACE(i);
    EXPECT_EQ(out.classes[i].stream, expected[i].stream);
    EXPECT_EQ(out.classes[i].what, expected[i].what);
    EXPECT_EQ(out.classes[i].instructions, expected[i].instructions);
    EXPECT_EQ(out.classes[i].time.a.value, expected[i].a);
    EXPECT_EQ(out.classes[i].time.b.value, expected[i].b);
    // Two ranks times 10 ns is the whole difference.
    EXPECT_DOUBLE_EQ(out.classes[i].share, static_cast<double>(expected[i].b - expected[i].a) / 20);
  }
}

TEST(StepCompare, ListsTheInstructionsThatDifferMostAndNoneThatDoNot) {
  const StepComparison out = compare_steps(base(), slow_gemm(), 10);
  ASSERT_EQ(out.most.size(), 2U);  // all_reduce of rank 0: 5 to 15; GEMM of rank 1: 10 to 20
  EXPECT_EQ(out.most[0].rank, 0);
  EXPECT_EQ(out.most[0].work.text(), "all_reduce data");
  EXPECT_EQ(out.most[0].pass.text(), "-");
  EXPECT_EQ(out.most[1].rank, 1);
  EXPECT_EQ(out.most[1].instr, kGemm);
  EXPECT_EQ(out.most[1].pass.text(), "forward 3");
  EXPECT_EQ(out.most[1].time.b, Time{20});
  EXPECT_EQ(compare_steps(base(), slow_gemm(), 1).most.size(), 1U);
}

TEST(StepCompare, TellsKernelsFromIdleTimeOfEachRank) {
  const StepComparison out = compare_steps(base(), slow_gemm(), 10);
  ASSERT_EQ(out.ranks.size(), 2U);
  EXPECT_EQ(out.ranks[0].kernels.difference(), Time{0});
  EXPECT_EQ(out.ranks[0].idle.a, Time{7});  // 20 - 13
  EXPECT_EQ(out.ranks[0].idle.b, Time{17});
  EXPECT_EQ(out.ranks[1].kernels.difference(), Time{10});
  EXPECT_EQ(out.ranks[1].idle.difference(), Time{0});  // the step and its kernels take 10 ns more
}

TEST(StepCompare, StepsOfOtherClocksAreCountedFromTheirFirstStart) {
  TracedStep later = base();
  for (TracedInstr& instr : later.instrs) {
    instr.start += {1000};
    instr.end += {1000};
  }
  const StepComparison out = compare_steps(base(), later, 10);
  EXPECT_EQ(out.step.b, Time{20});
  EXPECT_TRUE(out.most.empty());
  for (const ClassTimes& row : out.classes) {
    EXPECT_EQ(row.time.difference(), Time{0});
    EXPECT_TRUE(std::isnan(row.share));
  }
}

TEST(StepCompare, TimeThatTwoInstructionsShareCountsOnce) {
  TracedStep step = base();
  step.works[kNorm].stream = Stream::data;  // rank 0: 12-15 and 14-20; rank 1: 10-13 and 13-20
  step.instrs[2].start = {14};
  const StepComparison out = compare_steps(step, step, 10);
  ASSERT_EQ(out.classes.size(), 5U);
  EXPECT_EQ(out.classes[2].what, "all_reduce data");
  EXPECT_EQ(out.classes[2].time.a, Time{5 + 7});
  EXPECT_EQ(out.classes[4].time.a, Time{40 - 12 - 6});
}

TEST(StepCompare, FindsWhereTheOrderOfAStreamChanges) {
  TracedStep swapped = base();  // rank 1 runs the norm first
  swapped.instrs[4].start = {0};
  swapped.instrs[4].end = {3};
  swapped.instrs[3].start = {3};
  swapped.instrs[3].end = {13};
  const StepComparison out = compare_steps(base(), swapped, 10);
  ASSERT_EQ(out.order_changes.size(), 1U);
  EXPECT_EQ(out.order_changes[0].rank, 1);
  EXPECT_EQ(out.order_changes[0].stream, Stream::compute);
  EXPECT_EQ(out.order_changes[0].position, 0);
  EXPECT_EQ(out.order_changes[0].instr_a, kGemm);
  EXPECT_EQ(out.order_changes[0].instr_b, kNorm);
  EXPECT_TRUE(compare_steps(base(), slow_gemm(), 10).order_changes.empty());
}

TEST(StepCompare, LeavesOutWhatOnlyOneStepHolds) {
  TracedStep part = slow_gemm();
  part.instrs.erase(part.instrs.begin(), part.instrs.begin() + 3);  // rank 0
  const StepComparison out = compare_steps(base(), part, 10);
  EXPECT_EQ(out.instructions, 3);
  EXPECT_EQ(out.only_a, 3);
  EXPECT_EQ(out.only_b, 0);
  ASSERT_EQ(out.ranks.size(), 1U);
  EXPECT_EQ(out.ranks[0].rank, 1);
}

TEST(StepCompare, RefusesStepsOfDifferentPrograms) {
  TracedStep other = base();
  other.program_hash = "00000000000000bb";
  const std::string message = message_of(base(), other);
  EXPECT_NE(message.find("00000000000000aa"), std::string::npos) << message;
  EXPECT_NE(message.find("00000000000000bb"), std::string::npos) << message;
}

TEST(StepCompare, RefusesStepsWithNothingInCommon) {
  TracedStep other = base();
  for (TracedInstr& instr : other.instrs) instr.rank += 2;
  EXPECT_NE(message_of(base(), other).find("in common"), std::string::npos);
}

TEST(StepCompare, RefusesAnInstructionThatDoesOtherWork) {
  TracedStep other = base();
  other.works[kNorm].name = "add";
  const std::string message = message_of(base(), other);
  EXPECT_NE(message.find("instruction 1 of rank 0 is norm_forward"), std::string::npos) << message;
}

}  // namespace
}  // namespace trainyard
