#pragma once
#include <initializer_list>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/program/program.h"

namespace trainyard {

struct BufferUse {
  std::uint32_t buffer;
  Access access;
};
inline BufferUse r(std::uint32_t buffer) { return {buffer, Access::read}; }
inline BufferUse w(std::uint32_t buffer) { return {buffer, Access::write}; }
inline BufferUse u(std::uint32_t buffer) { return {buffer, Access::update}; }

// Writes small programs by hand. Every instruction belongs to the pass opened last.
class ProgramBuilder {
 public:
  explicit ProgramBuilder(int stage = 0) { program.stage = stage; }

  std::uint32_t buffer(std::string name, std::int64_t bytes = 256, bool persistent = false) {
    BufferType type;
    type.name = std::move(name);
    type.logical = type.local = {bytes, 1};
    type.dtype = DType::uint8;
    type.persistent = persistent;
    return add_buffer(std::move(type), {});
  }
  // Part `part` of `parts` equal row blocks.
  std::uint32_t view(std::uint32_t parent, int part, int parts, std::uint16_t partition = 0) {
    BufferType type = program.buffer_types[program.buffers[parent].type];
    type.local[0] /= parts;
    BufferSpec spec;
    spec.parent = parent;
    spec.part = static_cast<std::uint16_t>(part);
    spec.partition = partition;
    spec.view_offset = {type.local[0] * part};
    return add_buffer(std::move(type), spec);
  }
  void pass(PassKind kind, std::int32_t micro_batch, std::uint16_t chunk = 0) {
    program.passes.push_back({kind, chunk, micro_batch});
  }

  std::uint32_t compute(std::initializer_list<BufferUse> uses) { return on(Stream::compute, uses); }
  std::uint32_t on(Stream stream, std::initializer_list<BufferUse> uses) {
    Instr instr;
    instr.stream = stream;
    instr.op = stream == Stream::compute ? Op::kernel
               : stream == Stream::host  ? Op::host
                                         : Op::all_reduce;
    if (program.kernels.empty()) program.kernels.push_back({});
    return add(instr, uses);
  }
  std::uint32_t send(int steps, std::uint32_t tag, std::uint32_t from, bool with_next = false) {
    return transfer(Op::send, steps > 0 ? Stream::forward_out : Stream::backward_out, steps,
                    {tag, from, Access::read}, with_next);
  }
  std::uint32_t recv(int steps, std::uint32_t tag, std::uint32_t into, bool with_next = false) {
    return transfer(Op::recv, steps < 0 ? Stream::forward_in : Stream::backward_in, steps,
                    {tag, into, Access::write}, with_next);
  }
  std::uint32_t collective(Op op, Group group, Stream stream, std::int64_t bytes,
                           std::initializer_list<BufferUse> uses) {
    Instr instr;
    instr.op = op;
    instr.stream = stream;
    instr.group = group;
    instr.bytes = {bytes};
    return add(instr, uses);
  }
  std::uint32_t add(Instr instr, std::initializer_list<BufferUse> uses) {
    instr.first_operand = static_cast<std::uint32_t>(program.operands.size());
    instr.operands = static_cast<std::uint16_t>(uses.size());
    instr.pass =
        program.passes.empty() ? kNone : static_cast<std::uint32_t>(program.passes.size() - 1);
    for (const BufferUse& use : uses)
      program.operands.push_back({use.buffer, static_cast<std::uint32_t>(use.access)});
    program.code.push_back(instr);
    return static_cast<std::uint32_t>(program.code.size() - 1);
  }

  Program program;

 private:
  struct Message {
    std::uint32_t tag, buffer;
    Access access;
  };
  std::uint32_t add_buffer(BufferType type, BufferSpec spec) {
    spec.type = static_cast<std::uint32_t>(program.buffer_types.size());
    for (std::uint32_t t = 0; t < program.buffer_types.size(); ++t)
      if (program.buffer_types[t] == type) spec.type = t;
    if (spec.type == program.buffer_types.size()) program.buffer_types.push_back(std::move(type));
    program.buffers.push_back(spec);
    return static_cast<std::uint32_t>(program.buffers.size() - 1);
  }
  std::uint32_t transfer(Op op, Stream stream, int steps, Message message, bool with_next) {
    Instr instr;
    instr.op = op;
    instr.stream = stream;
    instr.group = Group::pipeline;
    instr.peer = static_cast<std::int16_t>(steps);
    instr.what = message.tag;
    instr.bytes = program.buffer_size(message.buffer);
    if (with_next) instr.flags = kGroupedWithNext;
    return add(instr, {{message.buffer, message.access}});
  }
};

inline ProgramSet set_of(const std::vector<Program>& programs) {
  ProgramSet set;
  for (const Program& program : programs)
    set.by_stage.push_back(std::make_shared<const Program>(program));
  set.hash = program_hash(set);
  return set;
}

}  // namespace trainyard
