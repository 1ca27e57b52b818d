#include "core/program/graphviz.h"

#include <fmt/format.h>

#include <array>
#include <iterator>
#include <vector>

#include "core/program/accesses.h"
#include "core/program/text.h"

namespace trainyard {
namespace {

std::string_view colour(Stream stream) {
  static constexpr std::array<std::string_view, kStreams> kColours{
      "lightblue", "gold",      "palegreen", "mediumspringgreen", "plum", "orchid",
      "lightpink", "lightgrey", "white"};
  return kColours[static_cast<std::size_t>(stream)];
}

// What an instruction writes, or what a send reads.
std::string subject(const Program& program, const Instr& instr) {
  std::string out;
  for (const Operand operand : operands_of(program, instr)) {
    if (!operand.writes() && instr.op != Op::send) continue;
    fmt::format_to(std::back_inserter(out), "\\n{}", buffer_text(program, operand.buffer));
  }
  return out;
}

// Indexes of the micro-batch's instructions, by pass.
std::vector<std::vector<std::uint32_t>> by_pass(const Program& program, std::int32_t micro_batch) {
  std::vector<std::vector<std::uint32_t>> result(program.passes.size());
  for (std::uint32_t i = 0; i < program.code.size(); ++i) {
    const std::uint32_t pass = program.code[i].pass;
    if (pass == kNone || program.passes[pass].micro_batch != micro_batch) continue;
    const PassKind kind = program.passes[pass].kind;
    if (kind != PassKind::setup && kind != PassKind::optimizer) result[pass].push_back(i);
  }
  return result;
}

}  // namespace

std::string to_graphviz(const Program& program, std::int32_t micro_batch) {
  std::string out = fmt::format(
      "digraph \"stage {} micro-batch {}\" {{\n"
      "  node [shape=box, style=filled, fontname=monospace];\n",
      program.stage, micro_batch);
  auto to = std::back_inserter(out);
  const auto passes = by_pass(program, micro_batch);
  std::vector<bool> shown(program.code.size());
  for (std::uint32_t p = 0; p < passes.size(); ++p) {
    if (passes[p].empty()) continue;
    fmt::format_to(to, "  subgraph cluster_{} {{\n    label=\"{}\";\n", p,
                   pass_text(program.passes[p]));
    for (const std::uint32_t i : passes[p]) {
      const Instr& instr = program.code[i];
      fmt::format_to(to, "    i{} [label=\"{} {}{}\", fillcolor={}];\n", i, i,
                     what_text(program, instr), subject(program, instr), colour(instr.stream));
      shown[i] = true;
    }
    out += "  }\n";
  }
  std::array<std::uint32_t, kStreams> last;
  last.fill(kNone);
  for (std::uint32_t i = 0; i < shown.size(); ++i) {
    if (!shown[i]) continue;
    const Instr& instr = program.code[i];
    std::uint32_t& previous = last[static_cast<std::size_t>(instr.stream)];
    if (previous != kNone) fmt::format_to(to, "  i{} -> i{} [style=dotted];\n", previous, i);
    previous = i;
    for (const std::uint32_t wait : instr.waits)
      if (wait != kNone && shown[wait]) fmt::format_to(to, "  i{} -> i{};\n", wait, i);
  }
  out += "}\n";
  return out;
}

}  // namespace trainyard
