#pragma once
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "core/mesh/mesh.h"
#include "core/program/program.h"
#include "core/program/trace_event.h"
#include "core/types.h"

namespace trainyard {

// What is known of a real run before its first step.
struct RunFacts {
  std::string job;
  std::uint64_t program_hash = 0;
  std::int32_t ranks = 1;
  std::int64_t total_steps = 0;
  std::int64_t steps_done = 0;  // before this run: more than 0 when it resumes a checkpoint
  std::int64_t tokens_per_step = 0;
  double model_flops_per_token = 0;
  FlopRate peak;      // stated for one rank; 0: not stated, and then there is no MFU
  Bytes peak_memory;  // of the rank that needs most
};

// One step, as all ranks agree on it. In every record `step` counts the steps done since the very
// start, this one included: the first step of a training is 1.
struct StepRecord {
  std::int64_t step = 0;
  double loss = 0;                                              // mean over the valid tokens
  double grad_norm = std::numeric_limits<double>::quiet_NaN();  // NaN: not measured
  double learning_rate = 0;
  double loss_scale = 1;
  bool skipped = false;  // gradients overflowed and no weight moved
  Time time;             // from the end of the step before, waits included
  Time data_wait;        // of it, for the batch
  std::int64_t tokens = 0;
};

struct EvaluationRecord {
  std::int64_t step = 0;
  double loss = 0;  // mean over the valid tokens of the sequences evaluated
  std::int64_t sequences = 0;
  Time time;
};

// A checkpoint that is whole on disk.
struct CheckpointRecord {
  std::int64_t step = 0;  // whose weights it holds
  std::string path;
  Bytes bytes;
  Time blocked;     // how long the steps stood still for it
  Time written_in;  // from its start until it was whole
};

// When the instructions of a step ran, on the ranks that were traced.
struct TraceRecord {
  std::int64_t step = 0;
  const ProgramSet& programs;
  const Mesh& mesh;
  std::span<const TraceEvent> events;  // by rank, then start; the first starts at 0
};

struct RunEnd {
  std::int64_t step = 0;              // steps done
  std::string failure;                // why the run ended before its last step; empty: it did not
  std::vector<std::string> warnings;  // for the user to read
};

// Who is told what happens in a real run: on one process of the run, from one thread, in the order
// in which it happens. begin() once, then the rest, end() once also when the run fails. A member
// that cannot write what it has to throws std::runtime_error naming the file and the reason.
class RunObserver {
 public:
  virtual ~RunObserver() = default;
  virtual void begin(const RunFacts&) {}
  virtual void step(const StepRecord&) {}
  virtual void evaluation(const EvaluationRecord&) {}
  virtual void checkpoint(const CheckpointRecord&) {}
  virtual void trace(const TraceRecord&) {}
  virtual void end(const RunEnd&) {}
};

}  // namespace trainyard
