#pragma once
#include <stdexcept>
#include <string>
#include <vector>

#include "core/config/job.h"
#include "core/memory/memory_plan.h"
#include "core/program/program.h"
#include "core/report/throughput.h"
#include "simulator/simulation.h"

namespace trainyard {

// The run did not reach its end; what() is for the user.
struct RunFailed : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// A job with its programs and what they hold in memory.
struct PlannedJob {
  Job job;
  ProgramSet programs;
  std::vector<MemoryUse> memory;  // by stage
};

// Throws ConfigError when the job cannot be planned.
PlannedJob plan_job(Job job);

// Largest peak of all stages.
Bytes peak_memory(const PlannedJob& planned);

// A row a stage: the peak and what is held at that moment, in GiB.
std::string memory_table(const PlannedJob& planned);

// A sentence for each stage that needs more memory than its GPU has.
std::vector<std::string> memory_shortages(const PlannedJob& planned);

// Sentences naming single changes of the job with which every stage would fit; planned to be sure.
std::vector<std::string> memory_remedies(const Job& job);

// Where four of five repetitions on other machines of the same kind should fall.
struct Interval {
  double low_s = 0, high_s = 0;  // of the iteration time; equal: nothing is known of it
};

// A simulated step with all that is reported about it.
struct SimReport {
  PlannedJob planned;
  SimulationResult result;
  Throughput throughput;
  Interval interval;
  std::vector<std::string> warnings;
};

// Throws RunFailed when the programs got stuck or NCCL failed.
SimReport simulate_planned(PlannedJob planned, const SimulationOptions& options);

}  // namespace trainyard
