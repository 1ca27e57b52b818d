#include "backends/common/stream_device.h"

#include <vector>

#include "core/program/happens_before.h"

namespace trainyard {
namespace {

// Instructions that others of another stream wait for.
std::vector<bool> awaited_instructions(const Program& program) {
  std::vector<bool> awaited(program.code.size(), false);
  for (const Instr& instr : program.code)
    for (const std::uint32_t wait : instr.waits)
      if (wait != kNone) awaited[wait] = true;
  return awaited;
}

// false: the step has failed and nothing more is to be enqueued.
bool enqueue(StreamDevice& device, const Program& program, std::uint32_t first,
             std::uint32_t count) {
  const Instr& instr = program.code[first];
  switch (instr.op) {
    case Op::kernel:
      device.kernel(first);
      return true;
    case Op::send:
    case Op::recv:
      device.transfers(first, count);
      return true;
    case Op::copy:
      device.copy(first);
      return true;
    case Op::host:
      if (instr.stream == Stream::host) return device.host_work(first);
      device.host(first);
      return true;
    case Op::join:
      return true;
    default:
      device.collective(first);
      return true;
  }
}

}  // namespace

StepReport run_on_streams(StreamDevice& device, const Program& program, const StepInputs& inputs,
                          Time deadline) {
  const std::vector<bool> awaited = awaited_instructions(program);
  device.begin(program, inputs);
  const auto size = static_cast<std::uint32_t>(program.code.size());
  for (std::uint32_t first = 0; first < size;) {
    const auto group = group_at(program.code, first);
    const auto count = static_cast<std::uint32_t>(group.size());
    for (const Instr& member : group)
      for (const std::uint32_t wait : member.waits)
        if (wait != kNone) device.wait_for(member.stream, wait);
    if (!enqueue(device, program, first, count)) break;
    for (std::uint32_t i = first; i < first + count; ++i)
      if (awaited[i]) device.record(i);
    first += count;
  }
  return device.finish(deadline);
}

}  // namespace trainyard
