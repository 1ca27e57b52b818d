#pragma once
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/mesh/mesh.h"
#include "core/program/program.h"
#include "core/types.h"

namespace trainyard {

enum class Outcome : std::uint8_t { done, fault, timeout };

// How one step ended. Failures of a run are values, never exceptions.
struct StepReport {
  Outcome outcome = Outcome::done;
  Time elapsed;
  double loss = std::numeric_limits<double>::quiet_NaN();  // NaN where no mathematics is done
  std::string message;  // who waits for whom, on which instruction, unless done
};

struct StepInputs {
  std::int64_t step = 0;
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
