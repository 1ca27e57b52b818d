#pragma once
#include <initializer_list>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/program/program.h"

namespace trainyard {

// Buffers of one micro-batch are numbered from kLocal on until a pass is stamped.
inline constexpr std::uint32_t kLocal = 1u << 29;

// The instructions of one pass, once for all micro-batches. Operands name local buffers; waits are
// relative to the pass's first instruction.
struct PassBody {
  std::vector<Instr> code;
  std::vector<Operand> operands;
};

struct Use {
  std::uint32_t buffer;
  Access access;
};
inline Use reads(std::uint32_t buffer) { return {buffer, Access::read}; }
inline Use writes(std::uint32_t buffer) { return {buffer, Access::write}; }
inline Use updates(std::uint32_t buffer) { return {buffer, Access::update}; }

// Shape and kind of a new buffer; `logical` defaults to what this rank holds.
struct NewBuffer {
  std::string name;
  std::int64_t rows, columns;
  DType dtype;
  MemoryClass memory;
  std::array<std::int64_t, 2> logical{0, 0};
  bool persistent = false;
};

struct Collective {
  Op op;
  Group group;
  Stream stream;
  Reduction reduction = Reduction::sum;
};

// Appends instructions to pass bodies and keeps the tables they refer to.
class Emitter {
 public:
  explicit Emitter(Program& program) : program_(program) {}

  // Where new local buffers and new instructions go.
  void use_locals(std::vector<BufferSpec>& locals) { locals_ = &locals; }
  void use_body(PassBody& body) { body_ = &body; }

  std::uint32_t global(const NewBuffer& buffer);  // one for the whole step, or persistent
  std::uint32_t local(const NewBuffer& buffer);   // one a micro-batch
  // Equal blocks of rows, in order. One part: the buffer itself.
  std::uint32_t row_part(std::uint32_t buffer, std::int32_t part, std::int32_t parts);
  // `columns` columns from `first` on; the `part`-th such view of its parent.
  std::uint32_t column_part(std::uint32_t buffer, std::int64_t first, std::int64_t columns,
                            std::int32_t part);
  // A matrix inside a flat buffer, from element `first` on.
  std::uint32_t slice(std::uint32_t flat, std::int64_t first, const NewBuffer& tensor,
                      std::int32_t part);
  // The first elements of a flat buffer, across its slices.
  std::uint32_t prefix(std::uint32_t flat, const NewBuffer& elements);

  // Each returns the instruction's index in the body.
  std::uint32_t kernel(const KernelSpec& spec, std::initializer_list<Use> uses);
  std::uint32_t collective(const Collective& what, Bytes full, std::initializer_list<Use> uses);
  std::uint32_t append(const Instr& instr, std::initializer_list<Use> uses);
  void add_use(std::uint32_t instr, Use use);  // of the last instruction
  void wait_for(std::uint32_t instr, std::uint32_t earlier);

  Bytes size(std::uint32_t buffer) const;
  const BufferSpec& spec(std::uint32_t buffer) const;
  std::uint32_t last_kernel() const;  // of the body; kNone if it has none yet
  std::uint32_t last() const { return static_cast<std::uint32_t>(body_->code.size()) - 1; }

 private:
  std::uint32_t new_type(const NewBuffer& buffer);  // named once, so not looked up
  std::uint32_t view(std::uint32_t parent, BufferSpec spec);

  Program& program_;
  std::vector<BufferSpec>* locals_ = nullptr;
  PassBody* body_ = nullptr;
};

}  // namespace trainyard
