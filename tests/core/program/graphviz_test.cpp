#include "core/program/graphviz.h"

#include <gtest/gtest.h>

#include "core/plan/waits.h"
#include "tests/core/program/program_builder.h"

namespace trainyard {
namespace {

TEST(Graphviz, ShowsOneMicroBatchClusteredByPassAndColouredByStream) {
  ProgramBuilder b(2);
  for (int m = 0; m < 2; ++m) {
    b.pass(PassKind::forward, m);
    const auto x = b.buffer("x"), y = b.buffer("y");
    b.recv(-1, static_cast<std::uint32_t>(m), x);
    b.compute({r(x), w(y)});
    b.compute({u(y)});
    b.send(1, static_cast<std::uint32_t>(m), y);
  }
  b.pass(PassKind::optimizer, 1);
  b.compute({});
  derive_waits(b.program);
  EXPECT_EQ(to_graphviz(b.program, 1),
            "digraph \"stage 2 micro-batch 1\" {\n"
            "  node [shape=box, style=filled, fontname=monospace];\n"
            "  subgraph cluster_1 {\n"
            "    label=\"F1.0\";\n"
            "    i4 [label=\"4 recv pipeline-1 tag 1\\nx#2\", fillcolor=palegreen];\n"
            "    i5 [label=\"5 gemm_forward bf16 [0]\\ny#3\", fillcolor=lightblue];\n"
            "    i6 [label=\"6 gemm_forward bf16 [0]\\ny#3\", fillcolor=lightblue];\n"
            "    i7 [label=\"7 send pipeline+1 tag 1\\ny#3\", fillcolor=mediumspringgreen];\n"
            "  }\n"
            "  i4 -> i5;\n"
            "  i5 -> i6 [style=dotted];\n"
            "  i6 -> i7;\n"
            "}\n");
}

}  // namespace
}  // namespace trainyard
