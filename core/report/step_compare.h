#pragma once
// Two traced steps of one program laid over each other, instruction by instruction.
#include <cstdint>
#include <string>
#include <vector>

#include "core/program/program.h"
#include "core/types.h"

namespace trainyard {

// What an instruction does, as its trace says it.
struct TracedWork {
  std::string name;   // kernel kind, or op
  std::string group;  // of collectives and transfers; else empty
  Stream stream{};
  auto operator<=>(const TracedWork&) const = default;
  std::string text() const { return group.empty() ? name : name + " " + group; }
};

// The pass of an instruction; an empty kind: none.
struct TracedPass {
  std::string kind;
  std::int32_t chunk = 0, micro_batch = 0;
  auto operator<=>(const TracedPass&) const = default;
  std::string text() const;  // "forward 3", "forward 3 chunk 1"; "-": none
};

struct TracedInstr {
  std::int32_t rank = 0;
  std::uint32_t instr = 0;  // index in the rank's program
  Time start, end;          // of one clock for all ranks
  std::uint32_t work = 0, pass = 0;
};

// One step of a trace, of a real run or a simulated one; 32 bytes an instruction.
struct TracedStep {
  std::string program_hash;
  std::vector<TracedWork> works;  // none twice
  std::vector<TracedPass> passes;
  std::vector<TracedInstr> instrs;  // by rank, then instruction; none twice
};

struct TimePair {
  Time a, b;
  Time difference() const { return b - a; }
};

// All time of a stream, summed over all compared ranks, is one of its classes' or waiting. Time
// that two instructions of a stream share (transfers in a group) counts once, for the first.
struct ClassTimes {
  Stream stream{};
  std::string what;  // "waiting": nothing ran on the stream
  std::int64_t instructions = 0;
  TimePair time;
  // Of the step's difference; the classes of a stream sum to 1. NaN: the steps take equally long.
  double share = 0;
};

struct InstrDifference {
  std::int32_t rank = 0;
  std::uint32_t instr = 0;
  TracedWork work;
  TracedPass pass;
  TimePair time;
};

// One rank's kernels, and the time in which its compute stream does nothing.
struct RankTimes {
  std::int32_t rank = 0;
  TimePair kernels, idle;
};

// The first place of one rank's stream at which the steps run different instructions.
struct OrderChange {
  std::int32_t rank = 0;
  Stream stream{};
  std::int64_t position = 0;  // instructions of the stream that ran before it
  std::uint32_t instr_a = 0, instr_b = 0;
  Time start_a;  // from the start of the step
};

struct StepComparison {
  TimePair step;                           // from the first start to the last end
  std::int64_t instructions = 0;           // compared: those that both traces hold
  std::int64_t only_a = 0, only_b = 0;     // left out
  std::vector<ClassTimes> classes;         // by stream; those that differ most first
  std::vector<InstrDifference> most;       // whose times differ most, at most as many as asked for
  std::vector<RankTimes> ranks;            // by rank
  std::vector<OrderChange> order_changes;  // by start in `a`
};

// Compares `b` with `a`; lists the `top` instructions that differ most. Throws ConfigError when the
// programs differ, when no instruction is in both, and when an instruction does different work in
// the two.
StepComparison compare_steps(const TracedStep& a, const TracedStep& b, std::size_t top);

}  // namespace trainyard
