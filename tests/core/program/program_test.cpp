#include "core/program/program.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "tests/core/program/program_builder.h"

namespace trainyard {
namespace {

using ::testing::HasSubstr;

ProgramBuilder small_program() {
  ProgramBuilder b(1);
  b.pass(PassKind::forward, 3, 1);
  const auto x = b.buffer("x", 512), y = b.buffer("y", 512);
  KernelSpec gemm;
  gemm.kind = KernelKind::gemm_forward;
  gemm.shape = {2, 3, 5};
  b.program.kernels = {gemm};
  b.recv(-1, 7, x);
  b.compute({r(x), w(y)});
  b.send(1, 8, b.view(y, 1, 2));
  b.program.code[1].waits[0] = 0;
  return b;
}

TEST(KernelTable, DescribesEveryKindUnderItsOwnName) {
  std::set<std::string_view> names;
  for (int k = 0; k < kKernelKinds; ++k) {
    const KernelInfo& info = kernel_info(static_cast<KernelKind>(k));
    EXPECT_EQ(static_cast<int>(info.kind), k);
    EXPECT_FALSE(info.shape.empty());
    names.insert(info.name);
  }
  EXPECT_EQ(static_cast<int>(names.size()), kKernelKinds);
  EXPECT_EQ(kernel_info(KernelKind::gemm_weight_grad).cost, CostClass::gemm);
  EXPECT_EQ(kernel_info(KernelKind::lamb_apply).cost, CostClass::optimizer);
}

TEST(Program, NamesEveryOpAndStreamOnce) {
  std::set<std::string_view> ops, streams;
  for (int i = 0; i < kOps; ++i) ops.insert(op_name(static_cast<Op>(i)));
  for (int i = 0; i < kStreams; ++i) streams.insert(stream_name(static_cast<Stream>(i)));
  EXPECT_EQ(static_cast<int>(ops.size()), kOps);
  EXPECT_EQ(static_cast<int>(streams.size()), kStreams);
}

TEST(Program, TextShowsALineAnInstruction) {
  const std::string text = to_text(small_program().program);
  EXPECT_THAT(text, HasSubstr("program of stage 1: 3 instructions, 3 buffers"));
  EXPECT_THAT(text, HasSubstr("0 forward_in   recv pipeline-1 tag 7"));
  EXPECT_THAT(text, HasSubstr("gemm_forward bf16 [2,3,5]"));
  EXPECT_THAT(text, HasSubstr(" x#0 r, y#1 w  waits 0  F3.1\n"));
  EXPECT_THAT(text, HasSubstr(" y#1:1 r  256 bytes  F3.1\n"));
}

TEST(ProgramHash, ChangesWithAnythingThatWouldRunDifferently) {
  std::set<std::uint64_t> hashes;
  const auto add = [&](const Program& program) { hashes.insert(program_hash(set_of({program}))); };
  const Program base = small_program().program;
  add(base);
  add(base);
  EXPECT_EQ(hashes.size(), 1u);
  std::vector<Program> changed(12, base);
  changed[0].stage = 2;
  changed[1].code[0].what = 9;
  changed[2].code[2].peer = -1;
  changed[3].code[1].waits[1] = 0;
  changed[4].code[2].bytes = {257};
  changed[5].kernels[0].shape[1] = 4;
  changed[6].kernels[0].parameter = 0.1;
  changed[7].buffer_types[0].name = "z";
  changed[8].buffers[0].offset = {256};
  changed[9].passes[0].chunk = 0;
  changed[10].operands[1].access = 3;
  changed[11].code[0].flags = kGroupedWithNext;
  for (const Program& program : changed) add(program);
  EXPECT_EQ(hashes.size(), 1u + changed.size());
}

// By hand: one zero word, then the finish of MurmurHash3. A build that disagrees would show here.
TEST(ProgramHash, IsTheSameInEveryBuild) {
  EXPECT_EQ(program_hash(ProgramSet{}), 6133650703141879471u);
}

}  // namespace
}  // namespace trainyard
