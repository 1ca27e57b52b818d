#pragma once
#include <optional>

#include "backends/common/checkpoint_writer.h"
#include "backends/common/rank_state.h"
#include "backends/common/run_observer.h"
#include "backends/common/training_run.h"
#include "core/data/sampler.h"
#include "core/engine/loss_scaler.h"

namespace trainyard {

// How far a run is, beside its weights.
struct RunProgress {
  std::int64_t steps = 0;      // done
  std::int64_t updates = 0;    // steps that moved the weights
  SamplerState data;           // of the samples that come next
  LossScale loss_scale{0, 0};  // scale 0: none saved
};

// The checkpoints of one rank's run: where it starts from, and what it leaves.
class RunCheckpoints {
 public:
  RunCheckpoints(const Job& job, const TrainingOptions& options, std::uint64_t program_hash);

  // Fills the state: from the newest whole checkpoint when the run resumes, from given weights, or
  // from drawn ones. All ranks start from the same. Throws ConfigError when there is something to
  // resume that was not asked for, or nothing that was.
  RunProgress start(RankState& state, const SamplerState& first);
  // Begins to write a checkpoint; an earlier one is waited for.
  void write(RankState& state, const RunProgress& progress, std::optional<double> validation_loss,
             RunObserver* observer);
  // Tells the observer of a checkpoint that has become whole. Throws std::runtime_error when
  // writing failed.
  void poll(RunObserver* observer);
  void finish(RunObserver* observer);  // waits

 private:
  std::string choose() const;
  std::string agree() const;
  RunProgress resume(const std::string& path, RankState& state) const;
  void collect(RunObserver* observer);

  const Job& job_;
  const TrainingOptions& options_;
  std::uint64_t program_hash_;
  std::optional<CheckpointStore> store_;
  std::optional<CheckpointWriter> writer_;
  bool pending_ = false;
  std::int64_t pending_step_ = 0;
  Bytes pending_bytes_;
  Time pending_blocked_;
  std::chrono::steady_clock::time_point started_;
};

}  // namespace trainyard
