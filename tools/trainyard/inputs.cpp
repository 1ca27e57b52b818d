#include "tools/trainyard/inputs.h"

#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <cstdlib>
#include <filesystem>

#include "core/config/load.h"
#include "core/error.h"

namespace trainyard {
namespace fs = std::filesystem;

std::string scenario_root() {
  if (const char* named = std::getenv("TRAINYARD_SCENARIOS")) return named;
  std::error_code error;
  const fs::path program = fs::read_symlink("/proc/self/exe", error);
  const fs::path installed = program.parent_path().parent_path() / "share/trainyard/scenarios";
  return !error && fs::is_directory(installed, error) ? installed.string()
                                                      : TRAINYARD_SOURCE_SCENARIOS;
}

void add_inputs(CLI::App& command, Inputs& inputs) {
  command.add_option("files", inputs.files, "Scenario files; later ones win")->required();
  command.add_option("--set", inputs.sets, "KEY=VALUE, wins over the files; repeatable")
      ->allow_extra_args(false);
  add_seed(command, inputs, "Seed of all random numbers");
  command.add_option("--threads", inputs.threads, "Threads to use; any number, same result")
      ->check(CLI::Range(1, 1024));
  add_outputs(command, inputs);
}

void add_seed(CLI::App& command, Inputs& inputs, const std::string& help) {
  command.add_option("--seed", inputs.seed, help)->check([](const std::string& text) {
    return text.starts_with('-') ? fmt::format("{} is below 0", text) : std::string();
  });
}

void add_outputs(CLI::App& command, Inputs& inputs) {
  command.add_option("--out", inputs.out_dir, "Directory for the report as .json and .txt");
  command.add_option("--json", inputs.json, "File for the result as JSON; - is standard output");
}

void add_fault_option(CLI::App& command, Inputs& inputs) {
  command
      .add_option("--fault", inputs.faults,
                  "Disturbance such as \"slow rank=3 factor=1.2\"; repeatable")
      ->allow_extra_args(false);
}

Job load(const Inputs& inputs, const std::vector<std::string>& more_sets) {
  std::vector<std::string> sets = inputs.sets;
  sets.insert(sets.end(), more_sets.begin(), more_sets.end());
  Job job = load_job({inputs.files.begin(), inputs.files.end()}, sets, scenario_root());
  if (inputs.seed) job.seed = *inputs.seed;
  std::vector<std::string> violations;
  for (const std::string& line : inputs.faults) {
    job.faults.push_back(parse_fault(line));
    const std::string problem = fault_problem(job.faults.back(), job);
    if (!problem.empty()) violations.push_back(fmt::format("--fault \"{}\": {}", line, problem));
  }
  if (!violations.empty()) throw ConfigError(violations);
  return job;
}

Job load_network(const Inputs& inputs, const std::vector<std::string>& more_sets) {
  std::vector<std::string> sets = inputs.sets;
  sets.insert(sets.end(), more_sets.begin(), more_sets.end());
  Job job = load_cluster(inputs.files, sets, scenario_root());
  if (inputs.seed) job.seed = *inputs.seed;
  return job;
}

}  // namespace trainyard
