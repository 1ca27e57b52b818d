#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/plan/validate.h"
#include "core/program/graphviz.h"
#include "core/report/text.h"
#include "tools/trainyard/command.h"
#include "tools/trainyard/inputs.h"
#include "tools/trainyard/output.h"
#include "tools/trainyard/run.h"

namespace trainyard {
namespace {

struct PlanOptions {
  Inputs inputs;
  int program = -1;  // stage whose program is printed
  int graph = -1;    // micro-batch whose dependencies are drawn
  int stage = 0;     // of the graph
  bool memory = false;
};

Json stage_json(const PlannedJob& planned, std::size_t stage) {
  const Program& program = *planned.programs.by_stage[stage];
  const MemoryUse& use = planned.memory[stage];
  Json memory;
  memory["peak"] = use.peak.value;
  for (int i = 0; i < kMemoryClasses; ++i)
    memory[std::string(memory_class_name(static_cast<MemoryClass>(i)))] = use.by_class[i].value;
  return {{"stage", stage},
          {"instructions", program.code.size()},
          {"kernels", program.kernels.size()},
          {"buffers", program.buffers.size()},
          {"flops", executed_flops(program).all},
          {"memory_bytes", memory}};
}

Json plan_json(const PlannedJob& planned, const std::vector<std::string>& warnings) {
  const Job& job = planned.job;
  Json stages = Json::array();
  for (std::size_t stage = 0; stage < planned.memory.size(); ++stage)
    stages.push_back(stage_json(planned, stage));
  return {{"schema", "trainyard-plan-1"},
          {"scenario", job.name},
          {"gpus", job.gpus()},
          {"micro_batches", job.micro_batches()},
          {"parameters", parameter_count(job.model, job.batch.sequence_length)},
          {"stages", stages},
          {"program_hash", fmt::format("{:016x}", planned.programs.hash)},
          {"warnings", warnings}};
}

std::string plan_text(const PlannedJob& planned) {
  const Job& job = planned.job;
  std::size_t instructions = 0;
  for (const auto& program : planned.programs.by_stage) instructions += program->code.size();
  return fmt::format(
      "{}: {} GPUs, {} stages, {} micro-batches, {} parameters\n"
      "program {:016x}: {} instructions in {} programs, sound\n",
      job.name, grouped(job.gpus()), job.stages(), job.micro_batches(),
      grouped(parameter_count(job.model, job.batch.sequence_length)), planned.programs.hash,
      grouped(static_cast<std::int64_t>(instructions)), planned.programs.by_stage.size());
}

void require_index(const char* option, int value, std::int64_t count) {
  if (value >= count)
    throw ConfigError(fmt::format("{} {}: the job has {}, numbered from 0", option, value, count));
}

int plan_command(const PlanOptions& options) {
  const Job job = load(options.inputs);
  require_index("--program", options.program, job.stages());
  require_index("--stage", options.stage, job.stages());
  require_index("--graphviz", options.graph, job.micro_batches());
  Output output(options.inputs, "plan");
  const PlannedJob planned = plan_job(job);

  std::vector<std::string> warnings = job.warnings;
  for (const std::string& shortage : memory_shortages(planned)) warnings.push_back(shortage);

  std::string text;
  if (options.program >= 0) {
    text = to_text(*planned.programs.by_stage[options.program]);
  } else if (options.graph >= 0) {
    text = to_graphviz(*planned.programs.by_stage[options.stage], options.graph);
  } else {
    text = plan_text(planned) + "\n";
    text += options.memory ? memory_table(planned) : schedule_table(planned.programs);
  }
  output.write(plan_json(planned, warnings), text);
  for (const std::string& warning : warnings) fmt::print(stderr, "warning: {}\n", warning);
  return 0;
}

}  // namespace

void add_plan(CLI::App& app, Action& action) {
  CLI::App* command =
      app.add_subcommand("plan", "Compile the job into programs and print the schedule");
  auto options = std::make_shared<PlanOptions>();
  add_inputs(*command, options->inputs);
  CLI::Option* program =
      command->add_option("--program", options->program, "Print the program of this stage, from 0");
  CLI::Option* graph = command->add_option(
      "--graphviz", options->graph, "Print the dependencies of this micro-batch, from 0, for dot");
  command->add_option("--stage", options->stage, "Stage of --graphviz, from 0")
      ->check(CLI::NonNegativeNumber)
      ->needs(graph);
  CLI::Option* memory =
      command->add_flag("--memory", options->memory, "Print what fills each stage's memory");
  program->check(CLI::NonNegativeNumber)->excludes(graph)->excludes(memory);
  graph->check(CLI::NonNegativeNumber)->excludes(memory);
  command->callback([&action, options] { action = [options] { return plan_command(*options); }; });
}

}  // namespace trainyard
