#pragma once
#include "backends/common/batch_feeds.h"
#include "backends/common/training_run.h"
#include "core/program/program.h"

namespace trainyard {

// Programs for training and, if the job keeps samples back, for evaluation.
struct Plans {
  ProgramSet training, evaluation;
  Bytes memory(std::int32_t stage) const;  // for the stage's programs, one at a time
};
Plans make_plans(const Job& job);

// A rank's place in the run, as it was found when all met.
struct Surroundings {
  bool one_host = true;
  std::int32_t local_ranks = 1, place = 0;  // of this host, and this one among them
  Processors processors;                    // that this rank may run on
  bool all_processors = true;               // as may all ranks of this host
  TrainingFeed::Node node;
};
// Waits for all ranks. Throws ConfigError when they are not about to run the same programs,
// std::runtime_error naming those that did not come.
Surroundings meet_others(const Job& job, const TrainingOptions& options, const Plans& plans);

RealBackendOptions backend_options(const Job& job, const TrainingOptions& options,
                                   const Surroundings& around, Bytes memory);

}  // namespace trainyard
