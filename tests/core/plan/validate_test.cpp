#include "core/plan/validate.h"

#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/memory/memory_plan.h"
#include "core/plan/waits.h"
#include "tests/core/program/pipeline_program.h"
#include "tests/core/program/program_builder.h"
#include "tests/core/program/textbook.h"

namespace trainyard {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

Mesh mesh_of(int stages) {
  return Mesh({1, 1, 1, 1, stages},
              {Axis::tensor, Axis::context, Axis::expert, Axis::data, Axis::pipeline});
}

// Derives waits and memory, then validates.
std::vector<std::string> violations(std::vector<Program> programs) {
  for (Program& program : programs) {
    derive_waits(program);
    plan_memory(program);
  }
  return validate(set_of(programs), mesh_of(static_cast<int>(programs.size())));
}
std::vector<std::string> check_planned(const std::vector<Program>& programs) {
  return validate(set_of(programs), mesh_of(static_cast<int>(programs.size())));
}

std::vector<Program> pipeline(int stages, int micro_batches) {
  std::vector<Program> programs;
  for (int stage = 0; stage < stages; ++stage) {
    programs.push_back(PipelineProgram({stages, micro_batches, 2, 4096}, stage).build());
    derive_waits(programs.back());
    plan_memory(programs.back());
  }
  return programs;
}

TEST(Validate, AcceptsOneForwardOneBackward) {
  for (const int stages : {1, 2, 3, 4})
    for (const int micro_batches : {1, 2, 3, 8})
      EXPECT_THAT(check_planned(pipeline(stages, micro_batches)), IsEmpty());
}

// Waits that only let memory be used again may go when the memory plan does not use it; the
// quadratic definitions tell them from the rest.
TEST(Validate, MissesNoDeletedWait) {
  const std::vector<Program> programs = pipeline(3, 4);
  int found = 0, harmless = 0;
  for (std::size_t stage = 0; stage < programs.size(); ++stage) {
    for (std::size_t k = 0; k < 2 * programs[stage].code.size(); ++k) {
      std::vector<Program> mutated = programs;
      std::uint32_t& wait = mutated[stage].code[k / 2].waits[k % 2];
      if (wait == kNone) continue;
      wait = kNone;
      if (!check_planned(mutated).empty()) {
        ++found;
        continue;
      }
      ++harmless;
      const Textbook textbook(mutated[stage]);
      ASSERT_TRUE(textbook.all_conflicts_ordered()) << stage << ", " << k / 2;
      ASSERT_GE(textbook.shared_memory(), 0) << stage << ", " << k / 2;
    }
  }
  EXPECT_GT(found, 200);
  EXPECT_LT(harmless, found / 20);
}

TEST(Validate, NamesBothInstructionsAndTheBufferOfAMissingWait) {
  ProgramBuilder b;
  b.pass(PassKind::optimizer, 0);
  const auto x = b.buffer("x");
  b.compute({w(x)});
  b.on(Stream::tensor, {r(x)});
  derive_waits(b.program);
  plan_memory(b.program);
  b.program.code[1].waits[0] = kNone;
  EXPECT_THAT(check_planned({b.program}),
              ElementsAre("stage 0, instruction 1 (all_reduce tensor, optimizer): nothing orders "
                          "it after stage 0, instruction 0 (gemm_forward bf16 [0], optimizer), "
                          "which uses x#0 too"));
}

TEST(Validate, FindsReadsBeforeWrites) {
  ProgramBuilder b;
  const auto x = b.buffer("x"), half = b.view(x, 0, 2), other = b.view(x, 1, 2);
  b.compute({w(half)});
  b.compute({r(x)});  // half of it is missing
  EXPECT_THAT(violations({b.program}), ElementsAre(HasSubstr("reads x#0 before it is written")));
  b.program.code.pop_back();
  b.compute({w(other)});
  b.compute({r(x)});
  EXPECT_THAT(violations({b.program}), IsEmpty());
}

TEST(Validate, FindsSharedMemoryOfBuffersInUse) {
  ProgramBuilder b;
  const auto x = b.buffer("x"), y = b.buffer("y");
  b.compute({w(x)});
  b.compute({w(y)});
  b.compute({r(x), r(y)});
  derive_waits(b.program);
  plan_memory(b.program);
  EXPECT_THAT(check_planned({b.program}), IsEmpty());
  b.program.buffers[y].offset = b.program.buffers[x].offset + Bytes{128};
  EXPECT_THAT(check_planned({b.program}), Contains(HasSubstr("takes memory of")));
  b.program.buffers[y].offset = {-1};
  EXPECT_THAT(check_planned({b.program}), Contains(HasSubstr("lies outside")));
}

TEST(Validate, FindsPersistentBuffersOnEachOther) {
  ProgramBuilder b;
  const auto p = b.buffer("p", 256, true), q = b.buffer("q", 256, true);
  b.compute({r(p), u(q)});
  derive_waits(b.program);
  plan_memory(b.program);
  b.program.buffers[q].offset = {128};
  EXPECT_THAT(check_planned({b.program}), Contains(HasSubstr("q#1 lies outside")));
}

TEST(Validate, FindsPassesThatAreMissingDoubleOrOutOfOrder) {
  const auto run = [](std::initializer_list<std::pair<PassKind, int>> passes) {
    ProgramBuilder b;
    const auto p = b.buffer("p", 256, true);
    for (const auto& [kind, micro_batch] : passes) {
      b.pass(kind, micro_batch);
      b.compute({u(p)});
    }
    return violations({b.program});
  };
  const PassKind f = PassKind::forward, d = PassKind::backward, g = PassKind::weight_grad;
  EXPECT_THAT(run({{f, 0}, {d, 0}}), IsEmpty());
  EXPECT_THAT(run({{f, 0}, {f, 1}, {d, 0}}), ElementsAre("stage 0: B1.0 is missing"));
  EXPECT_THAT(run({{d, 0}, {f, 0}}), ElementsAre(HasSubstr("B0.0) runs before F0.0 has ended")));
  EXPECT_THAT(run({{f, 0}, {d, 0}, {f, 0}}), Contains("stage 0: F0.0 is there twice"));
  EXPECT_THAT(run({{f, 0}, {d, 0}, {g, 0}}), IsEmpty());
  EXPECT_THAT(run({{f, 0}, {f, 1}, {d, 0}, {d, 1}, {g, 1}}),
              ElementsAre("stage 0: W0.0 is missing"));
  EXPECT_THAT(run({{f, 0}, {g, 0}, {d, 0}}), ElementsAre(HasSubstr("runs before B0.0")));
}

TEST(Validate, FindsTransfersWithoutPartnerOfOtherSizeOrTag) {
  const auto two = [](auto&& edit) {
    ProgramBuilder a(0), b(1);
    const auto x = a.buffer("x"), y = b.buffer("y");
    a.compute({w(x)});
    a.send(1, 5, x);
    b.recv(-1, 5, y);
    b.compute({r(y)});
    edit(a.program, b.program);
    return violations({a.program, b.program});
  };
  EXPECT_THAT(two([](Program&, Program&) {}), IsEmpty());
  EXPECT_THAT(two([](Program&, Program& b) { b.code[0].bytes = {128}; }),
              ElementsAre(AllOf(HasSubstr("stage 0, instruction 1 (send pipeline+1 tag 5)"),
                                HasSubstr("has 256 bytes"), HasSubstr("has 128 bytes"))));
  EXPECT_THAT(two([](Program& a, Program&) { a.code[1].what = 6; }),
              ElementsAre(HasSubstr("tag 5) has no matching send"),
                          HasSubstr("tag 6) has no matching receive")));
  EXPECT_THAT(two([](Program& a, Program&) { a.code.push_back(a.code[1]); }),
              Contains(HasSubstr("has the tag of")));
  EXPECT_THAT(two([](Program& a, Program&) { a.buffer_types[0].dtype = DType::bf16; }),
              Contains(HasSubstr("has bf16")));
}

TEST(Validate, FindsCollectivesThatDoNotMatch) {
  const auto two = [](auto&& edit) {
    std::vector<Program> programs;
    for (int stage = 0; stage < 2; ++stage) {
      ProgramBuilder b(stage);
      const auto g = b.buffer("g", 256, true), n = b.buffer("n", 256, true);
      b.collective(Op::all_reduce, Group::embedding, Stream::data, 256, {u(g)});
      b.collective(Op::all_reduce, Group::model, Stream::data, 4, {u(n)});
      b.collective(Op::all_reduce, Group::tensor, Stream::tensor, 4 * (stage + 1), {u(n)});
      programs.push_back(b.program);
    }
    edit(programs[1]);
    return violations(programs);
  };
  EXPECT_THAT(two([](Program&) {}), IsEmpty());
  EXPECT_THAT(two([](Program& p) { p.code[0].bytes = {128}; }),
              ElementsAre(HasSubstr("128 bytes")));
  EXPECT_THAT(two([](Program& p) { p.code[1].op = Op::all_gather; }),
              ElementsAre(AllOf(HasSubstr("all_reduce model"), HasSubstr("meets"),
                                HasSubstr("all_gather model"))));
  EXPECT_THAT(two([](Program& p) { p.code.erase(p.code.begin() + 1); }),
              ElementsAre(HasSubstr("has no match on every stage")));
  EXPECT_THAT(two([](Program& p) { std::swap(p.code[0], p.code[1]); }),
              ElementsAre(HasSubstr("deadlock")));
}

// Both stages send before they receive, each on one stream: with buffered sends this would end.
TEST(Validate, NamesTheCycleOfADeadlockUnderRendezvousSends) {
  const auto two = [](bool grouped) {
    std::vector<Program> programs;
    for (int stage = 0; stage < 2; ++stage) {
      ProgramBuilder b(stage);
      b.pass(PassKind::forward, 0);
      const auto out = b.buffer("out"), in = b.buffer("in");
      b.compute({w(out)});
      b.send(1, 7, out, grouped);
      b.recv(-1, 7, in);
      b.program.code[2].stream = Stream::forward_out;
      b.compute({r(in)});
      b.pass(PassKind::backward, 0);
      b.compute({r(out)});
      programs.push_back(b.program);
    }
    return violations(programs);
  };
  EXPECT_THAT(two(true), IsEmpty());
  const auto found = two(false);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0],
            "deadlock:\n"
            "  stage 0, instruction 1 (send pipeline+1 tag 7, F0.0) of out#0 waits for stage 1, "
            "instruction 2 (recv pipeline-1 tag 7, F0.0)\n"
            "  stage 1, instruction 2 (recv pipeline-1 tag 7, F0.0) of in#1 waits for stage 1, "
            "instruction 1 (send pipeline+1 tag 7, F0.0)\n"
            "  stage 1, instruction 1 (send pipeline+1 tag 7, F0.0) of out#0 waits for stage 0, "
            "instruction 2 (recv pipeline-1 tag 7, F0.0)\n"
            "  stage 0, instruction 2 (recv pipeline-1 tag 7, F0.0) of in#1 waits for stage 0, "
            "instruction 1 (send pipeline+1 tag 7, F0.0)\n"
            "stage   0 | [F0]           B0\n"
            "stage   1 |      F0   B0\n");
}

// A compute kernel stands between: stage 1 sends only what it computes from what it receives,
// and stage 0 the same, through streams of their own.
TEST(Validate, FollowsWaitsOnOtherStreamsToADeadlock) {
  std::vector<Program> programs;
  for (int stage = 0; stage < 2; ++stage) {
    ProgramBuilder b(stage);
    const auto in = b.buffer("in"), out = b.buffer("out");
    b.recv(-1, 1, in);
    b.compute({r(in), w(out)});
    b.send(1, 1, out);
    programs.push_back(b.program);
  }
  EXPECT_THAT(violations(programs), ElementsAre(HasSubstr("deadlock")));
}

// The host blocks the issue of a send until a receive has come that needs the other's send.
TEST(Validate, SeesThatTheHostBlocksIssue) {
  const auto two = [](bool host) {
    std::vector<Program> programs;
    for (int stage = 0; stage < 2; ++stage) {
      ProgramBuilder b(stage);
      const auto in = b.buffer("in"), out = b.buffer("out");
      b.compute({w(out)});
      b.recv(-1, 1, in);
      if (host) b.on(Stream::host, {r(in)});
      b.send(1, 1, out);
      programs.push_back(b.program);
    }
    return violations(programs);
  };
  EXPECT_THAT(two(false), IsEmpty());
  EXPECT_THAT(two(true), ElementsAre(HasSubstr("deadlock")));
}

TEST(Validate, FindsBrokenIndexesWithoutFollowingThem) {
  const auto with = [](auto&& edit) {
    ProgramBuilder b;
    const auto x = b.buffer("x");
    b.view(x, 1, 2);
    b.compute({w(x)});
    b.on(Stream::tensor, {r(x)});
    edit(b.program);
    return check_planned({b.program});
  };
  EXPECT_THAT(with([](Program& p) { p.code[1].waits[0] = 1; }),
              Contains(HasSubstr("does not come earlier")));
  EXPECT_THAT(with([](Program& p) { p.code[1].stream = Stream::compute, p.code[1].waits[0] = 0; }),
              Contains(HasSubstr("of its own stream")));
  EXPECT_THAT(with([](Program& p) { p.operands[1].buffer = 9; }),
              Contains(HasSubstr("unknown buffer 9")));
  EXPECT_THAT(with([](Program& p) { p.code[0].what = 3; }), Contains(HasSubstr("no such kernel")));
  EXPECT_THAT(with([](Program& p) { p.code[0].pass = 3; }), Contains(HasSubstr("no such pass")));
  EXPECT_THAT(with([](Program& p) { p.code[0].operands = 7; }),
              Contains(HasSubstr("beyond the list")));
  EXPECT_THAT(with([](Program& p) { p.code[0].flags = kGroupedWithNext; }),
              Contains(HasSubstr("only transfers")));
  EXPECT_THAT(with([](Program& p) { p.buffers[0].type = 8; }), Contains(HasSubstr("unknown type")));
  EXPECT_THAT(with([](Program& p) { p.buffers[1].view_offset = {200}; }),
              Contains(HasSubstr("beyond its parent")));
  EXPECT_THAT(with([](Program& p) { p.stage = 4; }), Contains(HasSubstr("stage 0 says 4")));
}

TEST(Validate, NeedsAProgramForEveryStage) {
  EXPECT_THAT(validate(set_of(pipeline(2, 2)), mesh_of(3)), ElementsAre("2 programs for 3 stages"));
}

// PipeDream-Flush (Narayanan et al., arXiv 2104.04473, Figure 4 top half) with one slot a pass.
TEST(ScheduleTable, ReadsAsTheFigureOf1F1B) {
  EXPECT_EQ(schedule_table(set_of(pipeline(4, 8))),
            "stage   0 | F0 F1 F2 F3          B0 F4 B1 F5 B2 F6 B3 F7 B4    B5    B6    B7\n"
            "stage   1 |    F0 F1 F2       B0 F3 B1 F4 B2 F5 B3 F6 B4 F7 B5    B6    B7\n"
            "stage   2 |       F0 F1    B0 F2 B1 F3 B2 F4 B3 F5 B4 F6 B5 F7 B6    B7\n"
            "stage   3 |          F0 B0 F1 B1 F2 B2 F3 B3 F4 B4 F5 B5 F6 B6 F7 B7\n");
}

TEST(ScheduleTable, ShowsChunksAndTheMarkedCellWithItsNeighbours) {
  ProgramBuilder b;
  const auto p = b.buffer("p", 256, true);
  b.pass(PassKind::setup, 0);
  b.compute({u(p)});
  for (const std::uint16_t chunk : {0, 1})
    for (int m = 0; m < 12; ++m) {
      b.pass(PassKind::forward, m, chunk);
      b.compute({u(p)});
    }
  EXPECT_EQ(schedule_table(set_of({b.program}), ScheduleCell{0, 1}),
            "stage   0 | setup  [F0.0] F1.0   F2.0   F3.0   F4.0   F5.0   F6.0   F7.0   F8.0\n");
}

}  // namespace
}  // namespace trainyard
