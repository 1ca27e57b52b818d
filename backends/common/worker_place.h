#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>

namespace trainyard {

using Environment = std::map<std::string, std::string, std::less<>>;

// Where a worker process stands in its run.
struct WorkerPlace {
  std::int32_t rank = 0, world = 1;              // among all workers
  std::int32_t local_rank = 0, local_world = 1;  // among those of its host
  // Where the workers meet, as open_store() takes it, and what keeps the run apart from others.
  // Empty where the launcher names none.
  std::string store, run_id;
};

// The variables of this process.
Environment process_environment();

// The place that a launcher (this project's own, torchrun, Open MPI, MPICH or Intel MPI, srun) has
// written into the variables; none if none of them started this process. TRAINYARD_STORE and
// TRAINYARD_RUN_ID hold with any of them. Throws ConfigError with every variable that is missing or
// makes no sense.
std::optional<WorkerPlace> worker_place(const Environment& environment);

// The variables that the project's own launcher sets, for worker_place() to read.
Environment variables_of(const WorkerPlace& place);

}  // namespace trainyard
