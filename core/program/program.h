#pragma once
#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/mesh/mesh.h"
#include "core/program/kernel.h"
#include "core/types.h"

namespace trainyard {

enum class Op : std::uint8_t {
  kernel,
  all_gather,
  reduce_scatter,
  all_reduce,
  all_to_all,
  broadcast,
  send,
  recv,
  copy,  // host to device or back, `bytes` long
  host,  // work of a processor: on Stream::host it blocks the issue of what follows
  join,  // no work; carries further waits when an instruction needs more than two
};
inline constexpr int kOps = 11;

// Receiving and sending have one stream a direction of travel (activations down, gradients up),
// so that a late message never holds up one that is ready.
enum class Stream : std::uint8_t {
  compute,
  tensor,
  forward_in,
  forward_out,
  backward_in,
  backward_out,
  data,
  copy,  // host-to-device copies and the loader thread that feeds them
  host,  // the thread that issues instructions
};
inline constexpr int kStreams = 9;

std::string_view op_name(Op op);
std::string_view stream_name(Stream stream);

inline constexpr std::uint32_t kNone = UINT32_MAX;

enum class HostWork : std::uint32_t { load_batch, read_scalar, garbage_collection };
enum class Reduction : std::uint32_t { sum, max };

enum InstrFlag : std::uint8_t {
  kGroupedWithNext = 1,  // send/recv: starts and ends together with the next instruction
};

// One step of one rank. Instructions of a stream run in order; an instruction starts when its
// stream is free and its waits have ended; list order is issue order. Peers and groups are
// relative to the mesh, so all ranks of a stage share one program.
struct Instr {
  Op op{};
  Stream stream{};
  Group group{};               // collectives, send, recv
  std::uint8_t flags = 0;      // InstrFlag
  std::int16_t peer = 0;       // send, recv: steps along the pipeline axis, cyclic; broadcast: root
  std::uint16_t operands = 0;  // how many, from first_operand on
  std::uint32_t first_operand = 0;
  std::uint32_t what = 0;  // kernel: index in kernels; send, recv: tag; host: HostWork;
                           // all_reduce, reduce_scatter: Reduction
  // Earlier instructions of other streams. What the planner sets here before derive_waits() is an
  // ordering that operands do not show (when a receive is posted, say), and is kept.
  std::array<std::uint32_t, 2> waits{kNone, kNone};
  std::uint32_t pass = kNone;  // index in Program::passes
  Bytes bytes;                 // send, recv, copy: message; collectives: the full (unsharded) size
};
static_assert(sizeof(Instr) == 40);

enum class Access : std::uint8_t { read = 1, write = 2, update = 3 };
struct Operand {
  std::uint32_t buffer : 30;
  std::uint32_t access : 2;  // Access
  bool reads() const { return (access & 1) != 0; }
  bool writes() const { return (access & 2) != 0; }
};

enum class MemoryClass : std::uint8_t {
  parameters,
  gradients,
  optimizer,
  activations,    // kept from a forward pass to its backward pass
  workspace,      // lives within a pass
  communication,  // staging of collectives and transfers
};
inline constexpr int kMemoryClasses = 6;
std::string_view memory_class_name(MemoryClass memory_class);

// What several buffers have in common. Shapes are [rows, columns].
struct BufferType {
  std::string name;                       // such as "fc1_out"
  std::array<std::int64_t, 2> logical{};  // before tensor/sequence/ZeRO sharding
  std::array<std::int64_t, 2> local{};    // what this rank holds
  DType dtype = DType::bf16;
  MemoryClass memory = MemoryClass::workspace;
  bool persistent = false;  // survives the step
  Bytes size() const { return {local[0] * local[1] * size_of(dtype)}; }
  bool operator==(const BufferType&) const = default;
};

// A piece of the arena. Transient buffers are written before they are read in every step. A view
// is a rectangle of its parent's memory. Views of one partition of a parent are disjoint unless
// their `part` is equal; a view conflicts with its parent and with views of other partitions.
struct BufferSpec {
  std::uint32_t type = 0;        // index in Program::buffer_types; a view has its own type
  std::uint32_t parent = kNone;  // never itself a view
  std::uint16_t part = 0, partition = 0;
  std::uint32_t row_stride = 0;  // elements from row to row; 0: columns of its type
  Bytes view_offset;             // views: bytes from the parent's start
  Bytes offset{-1};              // into the rank's arena; set by the memory plan (views too)
};

enum class PassKind : std::uint8_t { forward, backward, weight_grad, setup, optimizer };
std::string_view pass_name(PassKind kind);

// What a run of instructions works on, for printing, tracing and measured times.
struct Pass {
  PassKind kind{};
  std::uint16_t chunk = 0;  // model chunk of this stage (virtual stage)
  std::int32_t micro_batch = 0;
  bool operator==(const Pass&) const = default;
};

// What one stage's ranks execute in one step.
struct Program {
  std::int32_t stage = 0;
  bool trains = true;  // false: forward passes alone, of an evaluation
  std::vector<Instr> code;
  std::vector<Operand> operands;
  std::vector<KernelSpec> kernels;
  std::vector<BufferType> buffer_types;
  std::vector<BufferSpec> buffers;
  std::vector<Pass> passes;
  Bytes persistent_bytes, arena_bytes;  // arena includes the persistent part

  Bytes buffer_size(std::uint32_t buffer) const {
    return buffer_types[buffers[buffer].type].size();
  }
};

// Programs of a job: one per stage.
struct ProgramSet {
  std::vector<std::shared_ptr<const Program>> by_stage;
  std::uint64_t hash = 0;  // of all programs' instructions, kernels and buffers
};

std::uint64_t program_hash(const ProgramSet& set);

// A line per instruction: index, stream, op, kernel and shape, operands, waits, bytes, pass.
std::string to_text(const Program& program);

}  // namespace trainyard
