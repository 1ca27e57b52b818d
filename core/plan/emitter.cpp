#include "core/plan/emitter.h"

#include <algorithm>

#include "core/error.h"

namespace trainyard {
namespace {

enum Partition : std::uint16_t { kRows, kColumns, kSlices, kPrefix };

// The index of `value` in `table`, added unless it is there.
template <class T>
std::uint32_t intern(std::vector<T>& table, const T& value) {
  const auto at =
      static_cast<std::uint32_t>(std::find(table.begin(), table.end(), value) - table.begin());
  if (at == table.size()) table.push_back(value);
  return at;
}

}  // namespace

namespace {

BufferType type_of(const NewBuffer& b) {
  BufferType type;
  type.name = b.name;
  type.local = {b.rows, b.columns};
  type.logical = b.logical[0] != 0 ? b.logical : type.local;
  type.dtype = b.dtype;
  type.memory = b.memory;
  type.persistent = b.persistent;
  return type;
}

}  // namespace

std::uint32_t Emitter::new_type(const NewBuffer& buffer) {
  program_.buffer_types.push_back(type_of(buffer));
  return static_cast<std::uint32_t>(program_.buffer_types.size() - 1);
}

std::uint32_t Emitter::global(const NewBuffer& buffer) {
  BufferSpec spec;
  spec.type = new_type(buffer);
  program_.buffers.push_back(spec);
  return static_cast<std::uint32_t>(program_.buffers.size() - 1);
}

std::uint32_t Emitter::local(const NewBuffer& buffer) {
  BufferSpec spec;
  spec.type = intern(program_.buffer_types, type_of(buffer));
  locals_->push_back(spec);
  return static_cast<std::uint32_t>(locals_->size() - 1) | kLocal;
}

const BufferSpec& Emitter::spec(std::uint32_t buffer) const {
  return (buffer & kLocal) != 0 ? (*locals_)[buffer & ~kLocal] : program_.buffers[buffer];
}

Bytes Emitter::size(std::uint32_t buffer) const {
  return program_.buffer_types[spec(buffer).type].size();
}

std::uint32_t Emitter::view(std::uint32_t parent, BufferSpec view) {
  const BufferSpec& base = spec(parent);
  view.parent = base.parent == kNone ? parent : base.parent;
  view.view_offset += base.view_offset;
  std::vector<BufferSpec>& table = (view.parent & kLocal) != 0 ? *locals_ : program_.buffers;
  table.push_back(view);
  return static_cast<std::uint32_t>(table.size() - 1) | (view.parent & kLocal);
}

std::uint32_t Emitter::row_part(std::uint32_t buffer, std::int32_t part, std::int32_t parts) {
  if (parts == 1) return buffer;
  const BufferType whole = program_.buffer_types[spec(buffer).type];
  check(whole.local[0] % parts == 0, "{} rows of {} in {} parts", whole.local[0], whole.name,
        parts);
  BufferType piece = whole;
  piece.local[0] /= parts;
  piece.logical[0] /= parts;
  BufferSpec view;
  view.type = intern(program_.buffer_types, piece);
  view.part = static_cast<std::uint16_t>(part);
  view.partition = kRows;
  view.row_stride = static_cast<std::uint32_t>(whole.local[1]);
  view.view_offset = {piece.size().value * part};
  return this->view(buffer, view);
}

std::uint32_t Emitter::column_part(std::uint32_t buffer, std::int64_t first, std::int64_t columns,
                                   std::int32_t part) {
  const BufferType whole = program_.buffer_types[spec(buffer).type];
  BufferType piece = whole;
  piece.local[1] = piece.logical[1] = columns;
  BufferSpec view;
  view.type = intern(program_.buffer_types, piece);
  view.part = static_cast<std::uint16_t>(part);
  view.partition = kColumns;
  view.row_stride = static_cast<std::uint32_t>(whole.local[1]);
  view.view_offset = {first * size_of(whole.dtype)};
  return this->view(buffer, view);
}

std::uint32_t Emitter::slice(std::uint32_t flat, std::int64_t first, const NewBuffer& tensor,
                             std::int32_t part) {
  BufferSpec view;
  view.type = new_type(tensor);
  view.part = static_cast<std::uint16_t>(part);
  view.partition = kSlices;
  view.view_offset = {first * size_of(tensor.dtype)};
  return this->view(flat, view);
}

std::uint32_t Emitter::prefix(std::uint32_t flat, const NewBuffer& elements) {
  BufferSpec view;
  view.type = new_type(elements);
  view.partition = kPrefix;
  return this->view(flat, view);
}

std::uint32_t Emitter::append(const Instr& instr, std::initializer_list<Use> uses) {
  body_->code.push_back(instr);
  Instr& added = body_->code.back();
  added.first_operand = static_cast<std::uint32_t>(body_->operands.size());
  added.operands = static_cast<std::uint16_t>(uses.size());
  for (const Use& use : uses)
    body_->operands.push_back({use.buffer, static_cast<std::uint32_t>(use.access)});
  return last();
}

std::uint32_t Emitter::kernel(const KernelSpec& spec, std::initializer_list<Use> uses) {
  Instr instr;
  instr.op = Op::kernel;
  instr.stream = Stream::compute;
  instr.what = intern(program_.kernels, spec);
  return append(instr, uses);
}

std::uint32_t Emitter::collective(const Collective& what, Bytes full,
                                  std::initializer_list<Use> uses) {
  Instr instr;
  instr.op = what.op;
  instr.stream = what.stream;
  instr.group = what.group;
  instr.what = static_cast<std::uint32_t>(what.reduction);
  instr.bytes = full;
  return append(instr, uses);
}

std::uint32_t Emitter::last_kernel() const {
  for (std::size_t i = body_->code.size(); i-- > 0;)
    if (body_->code[i].stream == Stream::compute) return static_cast<std::uint32_t>(i);
  return kNone;
}

void Emitter::add_use(std::uint32_t instr, Use use) {
  check(instr == last(), "operands can be added to the last instruction only");
  ++body_->code.back().operands;
  body_->operands.push_back({use.buffer, static_cast<std::uint32_t>(use.access)});
}

void Emitter::wait_for(std::uint32_t instr, std::uint32_t earlier) {
  auto& waits = body_->code[instr].waits;
  const auto free = std::find(waits.begin(), waits.end(), kNone);
  check(free != waits.end(), "instruction {} has two waits already", instr);
  *free = earlier;
}

}  // namespace trainyard
