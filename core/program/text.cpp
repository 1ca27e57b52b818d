#include "core/program/text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <iterator>

namespace trainyard {
namespace {

std::string_view host_work_name(std::uint32_t what) {
  static constexpr std::array<std::string_view, 3> kNames{"load_batch", "read_scalar",
                                                          "garbage_collection"};
  return what < kNames.size() ? kNames[what] : "unknown";
}

std::string kernel_text(const KernelSpec& kernel) {
  std::size_t dims = kernel.shape.size();
  while (dims > 1 && kernel.shape[dims - 1] == 0) --dims;
  return fmt::format("{} {} [{}]", kernel_info(kernel.kind).name, dtype_name(kernel.dtype),
                     fmt::join(kernel.shape.begin(), kernel.shape.begin() + dims, ","));
}

std::string_view access_name(Operand operand) {
  return !operand.writes() ? "r" : operand.reads() ? "u" : "w";
}

std::string waits_text(const Instr& instr) {
  if (instr.waits[0] == kNone && instr.waits[1] == kNone) return "";
  if (instr.waits[1] == kNone) return fmt::format("  waits {}", instr.waits[0]);
  return fmt::format("  waits {} {}", instr.waits[0], instr.waits[1]);
}

}  // namespace

std::string pass_text(const Pass& pass) {
  switch (pass.kind) {
    case PassKind::forward:
      return fmt::format("F{}.{}", pass.micro_batch, pass.chunk);
    case PassKind::backward:
      return fmt::format("B{}.{}", pass.micro_batch, pass.chunk);
    case PassKind::weight_grad:
      return fmt::format("W{}.{}", pass.micro_batch, pass.chunk);
    default:
      return std::string(pass_name(pass.kind));
  }
}

std::string buffer_text(const Program& program, std::uint32_t buffer) {
  if (buffer >= program.buffers.size()) return fmt::format("no such buffer #{}", buffer);
  const BufferSpec& spec = program.buffers[buffer];
  const std::string& name = program.buffer_types[spec.type].name;
  if (spec.parent == kNone) return fmt::format("{}#{}", name, buffer);
  return fmt::format("{}#{}:{}", name, spec.parent, spec.part);
}

std::string what_text(const Program& program, const Instr& instr) {
  const std::string_view op = op_name(instr.op);
  switch (instr.op) {
    case Op::kernel:
      return instr.what < program.kernels.size() ? kernel_text(program.kernels[instr.what])
                                                 : fmt::format("no such kernel #{}", instr.what);
    case Op::send:
    case Op::recv:
      return fmt::format("{} {}{:+d} tag {}", op, group_name(instr.group), instr.peer, instr.what);
    case Op::host:
      return fmt::format("{} {}", op, host_work_name(instr.what));
    case Op::copy:
    case Op::join:
      return std::string(op);
    default:
      return fmt::format("{} {}", op, group_name(instr.group));
  }
}

std::string to_text(const Program& program) {
  std::string out = fmt::format(
      "program of stage {}: {} instructions, {} buffers, {} bytes ({} "
      "persistent)\n",
      program.stage, program.code.size(), program.buffers.size(), program.arena_bytes.value,
      program.persistent_bytes.value);
  auto to = std::back_inserter(out);
  for (std::size_t i = 0; i < program.code.size(); ++i) {
    const Instr& instr = program.code[i];
    fmt::format_to(to, "{:>7} {:<12} {:<36}", i, stream_name(instr.stream),
                   what_text(program, instr));
    for (std::uint32_t o = 0; o < instr.operands; ++o) {
      const Operand operand = program.operands[instr.first_operand + o];
      fmt::format_to(to, " {} {}{}", buffer_text(program, operand.buffer), access_name(operand),
                     o + 1 < instr.operands ? "," : "");
    }
    if (instr.bytes.value != 0) fmt::format_to(to, "  {} bytes", instr.bytes.value);
    out += waits_text(instr);
    if ((instr.flags & kGroupedWithNext) != 0) out += "  with next";
    if (instr.pass != kNone) fmt::format_to(to, "  {}", pass_text(program.passes[instr.pass]));
    out += '\n';
  }
  return out;
}

}  // namespace trainyard
