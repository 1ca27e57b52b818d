#include "tools/trainyard/run.h"

#include <fmt/core.h>

#include <algorithm>

#include "core/error.h"
#include "core/plan/plan.h"
#include "core/report/text.h"

namespace trainyard {
namespace {

struct Remedy {
  const char* text;
  bool (*apply)(Job&);  // false: does not apply to this job
};

bool halve(std::int64_t& value) {
  if (value % 2 != 0) return false;
  value /= 2;
  return true;
}

// Moves half of the data-parallel replicas to `axis`.
bool widen(Job& job, std::int32_t& axis) {
  if (job.parallel.data % 2 != 0) return false;
  job.parallel.data /= 2;
  axis *= 2;
  return true;
}

const Remedy kRemedies[] = {
    {"training.recompute = \"selective\"",
     [](Job& job) {
       const bool changes = job.training.recompute == Recompute::none;
       job.training.recompute = Recompute::selective;
       return changes;
     }},
    {"training.recompute = \"full\"",
     [](Job& job) {
       const bool changes = job.training.recompute != Recompute::full;
       job.training.recompute = Recompute::full;
       return changes;
     }},
    {"parallel.zero one higher", [](Job& job) { return ++job.parallel.zero <= 3; }},
    {"parallel.sequence = true",
     [](Job& job) {
       const bool changes = !job.parallel.sequence && job.parallel.tensor > 1;
       job.parallel.sequence = true;
       return changes;
     }},
    {"batch.micro_sequences halved", [](Job& job) { return halve(job.batch.micro_sequences); }},
    {"parallel.tensor doubled", [](Job& job) { return widen(job, job.parallel.tensor); }},
    {"parallel.pipeline doubled", [](Job& job) { return widen(job, job.parallel.pipeline); }},
};

}  // namespace

PlannedJob plan_job(Job job) {
  PlannedJob out;
  out.programs = plan(job);
  out.job = std::move(job);
  for (const auto& program : out.programs.by_stage) out.memory.push_back(memory_use(*program));
  return out;
}

Bytes peak_memory(const PlannedJob& planned) {
  Bytes peak;
  for (const MemoryUse& use : planned.memory) peak = std::max(peak, use.peak);
  return peak;
}

std::string memory_table(const PlannedJob& planned) {
  TextTable table;
  std::vector<std::string> head{"memory by stage, GiB", "peak"};
  for (int i = 0; i < kMemoryClasses; ++i)
    head.emplace_back(memory_class_name(static_cast<MemoryClass>(i)));
  table.row(head);
  for (std::size_t stage = 0; stage < planned.memory.size(); ++stage) {
    const MemoryUse& use = planned.memory[stage];
    std::vector<std::string> cells{fmt::format("{}", stage), gib(use.peak)};
    for (Bytes bytes : use.by_class) cells.push_back(gib(bytes));
    table.row(cells);
  }
  return table.text();
}

std::vector<std::string> memory_shortages(const PlannedJob& planned) {
  std::vector<std::string> out;
  const GpuProfile& gpu = planned.job.cluster.gpu;
  for (std::size_t stage = 0; stage < planned.memory.size(); ++stage)
    if (planned.memory[stage].peak > gpu.memory)
      out.push_back(fmt::format("stage {} needs {} GiB of memory, the {} has {} GiB", stage,
                                gib(planned.memory[stage].peak), gpu.name, gib(gpu.memory)));
  return out;
}

std::vector<std::string> memory_remedies(const Job& job) {
  std::vector<std::string> out;
  for (const Remedy& remedy : kRemedies) {
    Job changed = job;
    if (!remedy.apply(changed)) continue;
    try {
      const PlannedJob planned = plan_job(changed);
      if (peak_memory(planned) <= job.cluster.gpu.memory)
        out.push_back(
            fmt::format("{} would fit with {} GiB", remedy.text, gib(peak_memory(planned))));
    } catch (const ConfigError&) {
      // This change is not legal for the job: no remedy.
    }
  }
  return out;
}

SimReport simulate_planned(PlannedJob planned, const SimulationOptions& options) {
  SimReport report;
  report.result = simulate(planned.job, planned.programs, options);
  if (!report.result.stuck.empty())
    throw RunFailed("the simulated step got stuck:\n" + report.result.stuck);
  if (!report.result.failure.empty())
    throw RunFailed("the simulated step failed: " + report.result.failure);
  report.throughput =
      throughput(planned.job, report.result.iteration, report.result.executed_flops);
  report.warnings = memory_shortages(planned);
  report.planned = std::move(planned);
  return report;
}

}  // namespace trainyard
