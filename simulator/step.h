#pragma once
#include <array>
#include <cstdint>
#include <vector>

#include "core/program/program.h"
#include "core/types.h"

namespace trainyard {

enum class StepKind : std::uint8_t {
  timed,       // takes `duration`
  kernel,      // the same, on the GPU's compute units: a slow GPU or jitter stretches it
  gemm,        // a kernel that also shares its compute units with collectives in flight
  collective,  // among the lanes of the gang
  shared,      // with other gangs: transfers or a collective
  window,      // no instruction: tells the compute stream that a collective was launched
  resync,      // no instruction: tells it how late that collective really is
};

// Places of a gang's memory for end times that never change.
inline constexpr std::uint16_t kZeroSlot = 0;   // "no wait"
inline constexpr std::uint16_t kTrashSlot = 1;  // ends that nobody waits for
inline constexpr std::uint16_t kStartSlot = 2;  // when the host issues its first instruction
inline constexpr std::uint16_t kFirstSlot = 3;

inline constexpr std::uint8_t kAlways = kStreams;  // the stream of "no wait": it has always ended

// What an instruction has become for the walk. It starts when its stream is free, both waits have
// ended and the host has issued it, `issue_delay` after the third wait.
struct Step {
  std::int64_t duration = 0;     // ns; collectives and transfers look theirs up
  std::int64_t issue_delay = 0;  // ns
  std::uint32_t next = kNone;    // the stream's next step
  std::uint32_t detail = 0;      // collective: row of times; shared: SharedOp; window: which
  std::array<std::uint32_t, 3> waits{};  // earlier steps: two of the instruction, the issuer
  std::array<std::uint16_t, 3> slots{kZeroSlot, kZeroSlot, kStartSlot};  // their end times
  std::uint16_t out = kTrashSlot;
  std::array<std::uint8_t, 3> wait_streams{kAlways, kAlways, kAlways};
  std::uint8_t stream = 0;
  StepKind kind = StepKind::timed;
};

// Streams whose collectives and sends take compute units from a GEMM beside them.
inline constexpr std::array kWindowStreams{Stream::tensor, Stream::data, Stream::forward_out,
                                           Stream::backward_out};
inline constexpr int kWindows = static_cast<int>(kWindowStreams.size());

// One side of a transfer between pipeline stages.
struct TransferEnd {
  std::int32_t peer_stage = 0;
  std::uint32_t peer_step = kNone;  // kNone: the peer's program never answers
  std::uint32_t peer_transfer = 0;  // its other side, in the peer's program
  std::uint32_t message = 0;        // row of transfer times
  std::uint32_t instr = 0;
  std::uint8_t peer_stream = 0;
  bool sends = false;
  Bytes bytes, peer_bytes;
};

// What a shared step does with others: transfers (a send/receive group has several), or the nth
// collective of its group.
struct SharedOp {
  std::uint32_t first_transfer = 0, transfers = 0;
  std::uint32_t collective = 0;  // row of collective times
  std::uint32_t sequence = 0;
  Group group{};
};

// Whether collectives of `group` join all tensor coordinates: one time for all lanes.
inline bool spans_lanes(Group group) { return group == Group::model || group == Group::world; }

// Whether collectives of `group` are among what a layer does: those of parts of a layer, and those
// of parts of a sequence.
inline bool within_layers(Group group) { return group == Group::tensor || group == Group::context; }

// A stage's program, ready to be walked by any number of gangs.
struct CompiledProgram {
  const Program* source = nullptr;
  std::int32_t stage = 0;
  std::vector<Step> steps;  // in issue order; the last one is a guard on no stream
  std::vector<SharedOp> shared;
  std::vector<TransferEnd> transfers;
  std::array<std::uint32_t, kStreams> first{}, last{};          // step of each stream, or kNone
  std::array<std::vector<std::uint32_t>, kGroups> collectives;  // shared steps, by group
  std::vector<std::uint32_t> instr_of;                          // of each step; kNone for helpers
  std::vector<std::uint32_t> step_of;   // of each instruction; a group's is its last
  std::vector<std::uint32_t> previous;  // the stream's step before
  std::uint32_t slots = kFirstSlot;
  Time kernel_time;  // compute stream, undisturbed
  double flops = 0;
  Time at_peak;  // the program's FLOPs at the GPU's peak rates
};

}  // namespace trainyard
