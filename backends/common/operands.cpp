#include "backends/common/operands.h"

#include "core/error.h"
#include "core/program/accesses.h"

namespace trainyard {

ProgramMemory::ProgramMemory(const Program& program, std::span<std::byte> arena) {
  check(static_cast<std::int64_t>(arena.size()) >= program.arena_bytes.value,
        "an arena of {} bytes for a program of {}", arena.size(), program.arena_bytes.value);
  buffers_.reserve(program.buffers.size());
  for (const BufferSpec& spec : program.buffers) {
    const BufferType& type = program.buffer_types[spec.type];
    const std::int64_t stride = spec.row_stride == 0 ? type.local[1] : spec.row_stride;
    buffers_.push_back({spec.offset.value < 0 ? nullptr : arena.data() + spec.offset.value,
                        type.local[0], type.local[1], stride, type.dtype});
  }
  operands_.reserve(program.operands.size());
  for (const Operand& operand : program.operands) operands_.push_back(buffers_[operand.buffer]);
}

const Matrix& ProgramMemory::operand(const Instr& instr, std::size_t index) const {
  check(index < instr.operands, "operand {} of an instruction with {}", index, instr.operands);
  return operands_[instr.first_operand + index];
}

std::span<std::byte> bytes_of(const Matrix& m) {
  check(m.rows <= 1 || m.row_stride == m.columns, "rows of {} elements lie {} apart", m.columns,
        m.row_stride);
  return {static_cast<std::byte*>(m.data),
          static_cast<std::size_t>(m.rows * m.columns * size_of(m.dtype))};
}

}  // namespace trainyard
