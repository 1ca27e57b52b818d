#pragma once
#include <cstddef>
#include <span>
#include <vector>

#include "backends/common/kernel_call.h"
#include "core/program/program.h"

namespace trainyard {

// Where a program's buffers lie in a rank's memory.
class ProgramMemory {
 public:
  // `arena` must have program.arena_bytes and outlive this.
  ProgramMemory(const Program& program, std::span<std::byte> arena);

  const Matrix& buffer(std::uint32_t index) const { return buffers_[index]; }
  const Matrix& operand(const Instr& instr, std::size_t index) const;
  // All operands of an instruction, in order.
  std::span<const Matrix> operands(const Instr& instr) const {
    return {operands_.data() + instr.first_operand, instr.operands};
  }

 private:
  std::vector<Matrix> buffers_;
  std::vector<Matrix> operands_;  // of all instructions
};

// The elements of a contiguous operand as bytes. Throws InternalError when rows lie apart.
std::span<std::byte> bytes_of(const Matrix& matrix);

}  // namespace trainyard
