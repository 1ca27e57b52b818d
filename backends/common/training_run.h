#pragma once
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "backends/common/real_backend.h"
#include "backends/common/run_observer.h"
#include "core/config/job.h"

namespace trainyard {

// How one process takes part in a real run.
struct TrainingOptions {
  RankId rank{};
  Store* store = nullptr;         // by which ranks meet; may be null for one rank
  std::string attempt = "0";      // another in every start of the run, the same on all ranks
  std::string interface;          // network interface between hosts; empty: that of the host's name
  std::filesystem::path folder;   // of checkpoints, seen by all ranks; empty: none are written
  bool resume = false;            // go on from the newest whole checkpoint in `folder`
  std::filesystem::path weights;  // a checkpoint whose weights the run starts from; empty: drawn
  std::vector<RankId> traced;     // tell when each instruction of these ranks' `traced_step` ran
  std::int64_t traced_step = 0;   // counted from 1; 0: the tenth of this start, or the last
  std::function<std::unique_ptr<RealBackend>(const Job&, const RealBackendOptions&)> make_backend;
};

// Trains the job to its last step as one of its ranks, and tells `observer` (of rank 0; null on the
// others) how it goes. Throws ConfigError for unusable input, std::runtime_error in one sentence
// when the run fails.
void run_training(const Job& job, const TrainingOptions& options, RunObserver* observer);

}  // namespace trainyard
