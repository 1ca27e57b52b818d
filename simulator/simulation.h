#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/config/job.h"
#include "core/program/program.h"
#include "core/program/trace_event.h"
#include "network_models/network_model.h"
#include "simulator/timing.h"

namespace trainyard {

// What a nanosecond of the critical path was spent on.
enum class Cause : std::uint8_t {
  compute,        // kernels of the stage that bounds the step
  tensor_comm,    // exposed tensor-parallel collectives
  context_comm,   // exposed gathers of keys and values, and sums of their gradients
  pipeline_comm,  // exposed stage-to-stage transfers
  data_comm,      // exposed gradient, parameter, norm and embedding collectives
  bubble,         // the bounding stage idles while others fill or drain the pipeline
  optimizer,
  data_stall,  // waiting for training data
  straggler,   // beyond what undisturbed ranks would have taken
  other,       // launch gaps, host pauses
};
inline constexpr int kCauses = 10;
std::string_view cause_name(Cause cause);

struct SimulationOptions {
  bool fold = true;  // run one lane for several ranks where they are proven to behave alike
  int threads = 1;   // any number gives the same bytes
  CostScale scale;
  std::vector<RankId> traced;  // record every instruction of these ranks
};

struct SimulationResult {
  std::string stuck;    // empty, or every blocked instruction and whom it waits for
  std::string failure;  // or what ended it at `iteration`: an error of NCCL that names both ends
  Time iteration;
  std::array<Time, kCauses> breakdown{};  // of the critical path; sums to iteration exactly
  std::int32_t bounding_stage = 0;        // where the critical path spends most of its time
  std::vector<Time> stage_busy;           // compute stream, mean over the stage's ranks
  std::uint64_t instructions = 0, events = 0, flows = 0;
  std::optional<NetworkUse> network;  // none for closed-form network models
  double executed_flops = 0;          // over all ranks, recompute included
  std::vector<TraceEvent> trace;      // by rank, then start
};

// Runs one training step of the job on its simulated cluster. Same job and seed, same result, for
// any number of threads and folded or not. Throws InternalError when the books do not balance
// (bytes sent = bytes received, every lane finished, parts = whole, time >= FLOPs / peak).
SimulationResult simulate(const Job& job, const ProgramSet& programs,
                          const SimulationOptions& options);

}  // namespace trainyard
