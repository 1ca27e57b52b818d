#pragma once
#include <vector>

#include "core/config/job.h"
#include "core/engine/backend.h"
#include "simulator/simulation.h"

namespace trainyard {

// All ranks of a job on its simulated cluster; now() is simulated time. Programs are not copied:
// submit() keeps one pointer a rank, wait() runs the simulation of them all.
class SimBackend final : public Backend {
 public:
  explicit SimBackend(Job job, SimulationOptions options = {});

  std::string_view name() const override { return "sim"; }
  std::span<const RankId> local_ranks() const override { return ranks_; }
  Time now() const override { return now_; }
  // `mesh` must be the job's own.
  void connect(const Mesh& mesh) override;
  void submit(RankId rank, const Program& program, const StepInputs& inputs) override;
  // A step that would end after `deadline` leaves the clock there; one that cannot end is a fault
  // and names every blocked instruction.
  StepReport wait(Time deadline) override;

  // What the last step looked like.
  const SimulationResult& last() const { return last_; }

 private:
  Job job_;
  SimulationOptions options_;
  Mesh mesh_;
  std::vector<RankId> ranks_;
  std::vector<const Program*> submitted_;  // by rank
  std::vector<RankId> traced_;             // of those
  Time now_;
  SimulationResult last_;
};

}  // namespace trainyard
