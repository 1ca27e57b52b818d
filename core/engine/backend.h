#pragma once
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/mesh/mesh.h"
#include "core/program/program.h"
#include "core/program/trace_event.h"
#include "core/types.h"

namespace trainyard {

enum class Outcome : std::uint8_t {
  done,
  fault,
  timeout,
  peer_gone,  // another rank has ended, and knows why
};

// How one step ended. Failures of a run are values, never exceptions.
struct StepReport {
  Outcome outcome = Outcome::done;
  Time elapsed;
  // NaN where no mathematics is done, or on another rank. The mean over valid targets, and the norm
  // of all gradients before clipping.
  double loss = std::numeric_limits<double>::quiet_NaN();
  std::int64_t targets = 0;  // that the loss is the mean of
  double gradient_norm = std::numeric_limits<double>::quiet_NaN();
  bool skipped = false;           // gradients overflowed (fp16); no weight was changed
  std::string message;            // who waits for whom, on which instruction, unless done
  std::vector<TraceEvent> trace;  // every instruction of the ranks whose step was traced
};

// Where a rank's rows of tokens come from.
class BatchFeed {
 public:
  virtual ~BatchFeed() = default;
  // This rank's rows of step `step`, [rows, sequence + 1], micro-batch after micro-batch; valid
  // until a later step is asked for that is more than one further. Steps are asked for in order.
  virtual std::span<const std::int32_t> batch(std::int64_t step) = 0;
};

// What a step is told beside its program. The simulator does no mathematics with it.
struct StepInputs {
  std::int64_t step = 0;
  BatchFeed* feed = nullptr;      // for programs that load tokens
  std::int64_t valid_tokens = 1;  // targets of the global batch that count
  std::int64_t update = 1;        // updates of the weights, with this one
  double learning_rate = 0;
  double loss_scale = 1;
  bool traced = false;  // tell when each instruction ran
};

// Where programs run. A backend owns one rank when it is real, all of them when it is simulated;
// callers loop over local_ranks() and never ask which.
class Backend {
 public:
  virtual ~Backend() = default;
  virtual std::string_view name() const = 0;
  virtual std::span<const RankId> local_ranks() const = 0;
  virtual Time now() const = 0;
  // (Re)builds communicators for `mesh`.
  virtual void connect(const Mesh& mesh) = 0;
  // Queues one pass of `program` on `rank` and returns at once. `program` must outlive wait().
  virtual void submit(RankId rank, const Program& program, const StepInputs& inputs) = 0;
  // Returns when all queued passes have ended, a fault shows, or `deadline` is reached.
  virtual StepReport wait(Time deadline) = 0;
};

}  // namespace trainyard
