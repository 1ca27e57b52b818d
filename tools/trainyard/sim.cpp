#include <fmt/core.h>
#include <sys/resource.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "tools/trainyard/command.h"
#include "tools/trainyard/explain.h"
#include "tools/trainyard/inputs.h"
#include "tools/trainyard/interval.h"
#include "tools/trainyard/sim_report.h"
#include "tools/trainyard/trace.h"

namespace trainyard {
namespace {

struct SimOptions {
  Inputs inputs;
  bool explain = false, timings = false, allow_oom = false, unfolded = false;
  int draws = kIntervalDraws;
  std::string against;
  TraceOptions trace{.file = {}, .ranks = "pipeline"};
};

ProcessCost process_cost(std::chrono::steady_clock::time_point start) {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const std::chrono::duration<double> wall = std::chrono::steady_clock::now() - start;
  return {wall.count(), usage.ru_maxrss * 1024};
}

// Refuses a job that does not fit its GPUs, naming what would help.
void require_memory(const PlannedJob& planned) {
  std::vector<std::string> violations = memory_shortages(planned);
  if (violations.empty()) return;
  for (const std::string& remedy : memory_remedies(planned.job))
    violations.push_back("  " + remedy);
  violations.emplace_back("  --allow-oom simulates it all the same");
  throw ConfigError(violations);
}

// Instructions recorded before the trace is cut to its limit: about 100 MB.
constexpr std::size_t kMostRecorded = 4'000'000;

// Ranks to trace, as many as memory should hold.
std::vector<RankId> traced_ranks(const SimOptions& options, const PlannedJob& planned,
                                 std::vector<std::string>& warnings) {
  if (options.trace.file.empty()) return {};
  std::vector<RankId> ranks = parse_ranks(options.trace.ranks, planned.job);
  const Mesh mesh = planned.job.mesh();
  std::size_t instructions = 0, kept = 0;
  for (; kept < ranks.size(); ++kept) {
    const int stage = mesh.coord(ranks[kept])[Axis::pipeline];
    instructions += planned.programs.by_stage[stage]->code.size();
    if (kept > 0 && instructions > std::max(kMostRecorded, options.trace.limit)) break;
  }
  if (kept < ranks.size())
    warnings.push_back(fmt::format(
        "the trace leaves out {} of {} ranks, from rank {} on; --trace-ranks chooses others",
        ranks.size() - kept, ranks.size(), index(ranks[kept])));
  ranks.resize(kept);
  return ranks;
}

void write_trace(const SimOptions& options, SimReport& report, Output& output) {
  const PlannedJob& planned = report.planned;
  TraceText trace =
      trace_text(planned.programs, planned.job.mesh(), report.result.trace, options.trace);
  if (!trace.warning.empty()) report.warnings.push_back(trace.warning);
  output.write_extra(options.trace.file, trace.content);
}

int sim(const SimOptions& options) {
  const auto start = std::chrono::steady_clock::now();
  const Job job = load(options.inputs);
  Output output(options.inputs, "sim");
  output.expect_extra(options.trace.file);
  const Json other = options.against.empty() ? Json() : read_result(options.against);

  PlannedJob planned = plan_job(job);
  if (!options.allow_oom) require_memory(planned);
  SimulationOptions simulation;
  simulation.threads = options.inputs.threads;
  simulation.fold = !options.unfolded;
  std::vector<std::string> warnings = job.warnings;
  simulation.traced = traced_ranks(options, planned, warnings);

  SimReport report = simulate_planned(std::move(planned), simulation);
  report.warnings.insert(report.warnings.begin(), warnings.begin(), warnings.end());
  report.interval = step_interval(report.planned, report.result, options.draws, 0);
  if (!options.trace.file.empty()) write_trace(options, report, output);

  const ProcessCost cost = process_cost(start);
  const Json json = sim_json(report, options.timings ? &cost : nullptr);
  const std::vector<std::string> missed = missed_expectations(job, json);
  std::string text = sim_text(report);
  if (options.explain) text += "\n" + explain(report, simulation);
  if (!options.against.empty()) text += "\n" + difference(json, other);
  output.write(json, text);

  fmt::print(stderr, "simulated {} instructions, {} events in {:.2f} s, {:.0f} MiB\n",
             report.result.instructions, report.result.events, cost.wall_time_s,
             static_cast<double>(cost.peak_rss_bytes) / 1048576);
  for (const std::string& line : missed) fmt::print(stderr, "{}\n", line);
  return missed.empty() ? 0 : 1;
}

}  // namespace

void add_sim(CLI::App& app, Action& action) {
  CLI::App* command = app.add_subcommand("sim", "Simulate one training step");
  auto options = std::make_shared<SimOptions>();
  add_inputs(*command, options->inputs);
  add_fault_option(*command, options->inputs);
  command->add_flag("--explain", options->explain, "Print the five changes that would gain most");
  command->add_option("--against", options->against,
                      "Print the difference to an earlier result (--json) by cause");
  add_trace(*command, options->trace);
  command->add_flag("--allow-oom", options->allow_oom,
                    "Simulate even if a stage needs more memory than its GPU has");
  command->add_flag("--unfolded", options->unfolded,
                    "Simulate every GPU apart, also those proven to behave alike");
  command
      ->add_option("--draws", options->draws,
                   "Draws of the costs that the 80 % interval is taken from; 0: none")
      ->check(CLI::Range(0, 10'000));
  command->add_flag("--timings", options->timings,
                    "Put wall_time_s and peak_rss_bytes into the JSON, which then varies");
  command->callback([&action, options] { action = [options] { return sim(*options); }; });
}

}  // namespace trainyard
