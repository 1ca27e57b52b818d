#include "core/program/program.h"

#include <bit>

namespace trainyard {
namespace {

template <std::size_t N, class E>
std::string_view name_in(const std::array<std::string_view, N>& names, E value) {
  return names[static_cast<std::size_t>(value)];
}

// A 64-bit hash of a sequence of words: xor, multiply by an odd constant, fold the high half down
// (the step of FNV-1a on words instead of bytes, with a stronger finish, as in MurmurHash3).
// Works on values, never on memory, so that padding and byte order do not show.
class Hasher {
 public:
  void word(std::uint64_t w) {
    state_ = (state_ ^ w) * 0x9E3779B97F4A7C15u;
    state_ ^= state_ >> 32;
  }
  void pair(std::uint32_t high, std::uint32_t low) { word(std::uint64_t{high} << 32 | low); }
  void real(double x) { word(std::bit_cast<std::uint64_t>(x)); }
  void bytes(Bytes n) { word(static_cast<std::uint64_t>(n.value)); }
  void text(std::string_view s) {
    word(s.size());
    for (const char c : s) word(static_cast<unsigned char>(c));
  }
  std::uint64_t result() const {
    std::uint64_t h = state_;
    h = (h ^ (h >> 33)) * 0xFF51AFD7ED558CCDu;
    h = (h ^ (h >> 33)) * 0xC4CEB9FE1A85EC53u;
    return h ^ (h >> 33);
  }

 private:
  std::uint64_t state_ = 0xCBF29CE484222325u;
};

void add(Hasher& hash, const Instr& instr) {
  hash.pair(static_cast<std::uint32_t>(instr.op) | static_cast<std::uint32_t>(instr.stream) << 8 |
                static_cast<std::uint32_t>(instr.group) << 16 | std::uint32_t{instr.flags} << 24,
            static_cast<std::uint16_t>(instr.peer) | std::uint32_t{instr.operands} << 16);
  hash.pair(instr.first_operand, instr.what);
  hash.pair(instr.waits[0], instr.waits[1]);
  hash.word(instr.pass);
  hash.bytes(instr.bytes);
}

void add(Hasher& hash, const KernelSpec& kernel) {
  hash.pair(static_cast<std::uint32_t>(kernel.kind),
            static_cast<std::uint32_t>(kernel.dtype) << 8 | kernel.flag);
  for (const std::int64_t n : kernel.shape) hash.word(static_cast<std::uint64_t>(n));
  hash.real(kernel.parameter);
  hash.real(kernel.flops);
  hash.bytes(kernel.read);
  hash.bytes(kernel.written);
}

void add(Hasher& hash, const BufferType& type) {
  hash.text(type.name);
  for (const auto& shape : {type.logical, type.local})
    for (const std::int64_t n : shape) hash.word(static_cast<std::uint64_t>(n));
  hash.word(static_cast<std::uint64_t>(type.dtype) | static_cast<std::uint64_t>(type.memory) << 8 |
            static_cast<std::uint64_t>(type.persistent) << 16);
}

void add(Hasher& hash, const BufferSpec& buffer) {
  hash.pair(buffer.type, buffer.parent);
  hash.pair(buffer.part | std::uint32_t{buffer.partition} << 16, buffer.row_stride);
  hash.bytes(buffer.view_offset);
  hash.bytes(buffer.offset);
}

void add(Hasher& hash, const Pass& pass) {
  hash.pair(static_cast<std::uint32_t>(pass.kind) | std::uint32_t{pass.chunk} << 8,
            static_cast<std::uint32_t>(pass.micro_batch));
}

void add(Hasher& hash, Operand operand) {
  hash.word(std::uint64_t{operand.buffer} << 2 | operand.access);
}

template <class T>
void add(Hasher& hash, const std::vector<T>& all) {
  hash.word(all.size());
  for (const T& one : all) add(hash, one);
}

}  // namespace

std::string_view op_name(Op op) {
  static constexpr std::array<std::string_view, kOps> kNames{
      "kernel", "all_gather", "reduce_scatter", "all_reduce", "all_to_all", "broadcast",
      "send",   "recv",       "copy",           "host",       "join"};
  return name_in(kNames, op);
}

std::string_view stream_name(Stream stream) {
  static constexpr std::array<std::string_view, kStreams> kNames{
      "compute",      "tensor", "forward_in", "forward_out", "backward_in",
      "backward_out", "data",   "copy",       "host"};
  return name_in(kNames, stream);
}

std::string_view memory_class_name(MemoryClass memory_class) {
  static constexpr std::array<std::string_view, kMemoryClasses> kNames{
      "parameters", "gradients", "optimizer", "activations", "workspace", "communication"};
  return name_in(kNames, memory_class);
}

std::string_view pass_name(PassKind kind) {
  static constexpr std::array<std::string_view, 5> kNames{"forward", "backward", "weight_grad",
                                                          "setup", "optimizer"};
  return name_in(kNames, kind);
}

std::uint64_t program_hash(const ProgramSet& set) {
  Hasher hash;
  hash.word(set.by_stage.size());
  for (const auto& program : set.by_stage) {
    hash.word(static_cast<std::uint64_t>(program->stage));
    add(hash, program->code);
    add(hash, program->operands);
    add(hash, program->kernels);
    add(hash, program->buffer_types);
    add(hash, program->buffers);
    add(hash, program->passes);
    hash.bytes(program->persistent_bytes);
    hash.bytes(program->arena_bytes);
  }
  return hash.result();
}

}  // namespace trainyard
