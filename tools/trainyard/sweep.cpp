#include "tools/trainyard/sweep.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "tools/trainyard/command.h"

namespace trainyard {
namespace {

struct SweepOptions {
  Inputs inputs;
  std::vector<std::string> over;
  std::string csv, by = "mfu";
  std::size_t top = 20;
  bool infeasible = false, allow_oom = false;
};

Grid make_grid(const std::vector<std::string>& over) {
  std::vector<GridAxis> axes;
  std::vector<std::string> violations;
  for (const std::string& text : over) {
    try {
      axes.push_back(parse_axis(text));
    } catch (const ConfigError& error) {
      violations.insert(violations.end(), error.violations().begin(), error.violations().end());
    }
  }
  if (!violations.empty()) throw ConfigError(violations);
  return Grid(std::move(axes));
}

int sweep(const SweepOptions& options) {
  const Grid grid = make_grid(options.over);
  Output output(options.inputs, "sweep");
  output.expect_extra(options.csv);
  std::vector<Layout> layouts = run_grid(options.inputs, grid, options.allow_oom);
  rank_layouts(layouts, options.by);
  output.write_extra(options.csv, sweep_csv(grid, layouts));
  output.write(sweep_json(grid, layouts),
               sweep_text(grid, layouts, options.top, options.infeasible));
  bool broken = false;
  for (const Layout& layout : layouts) {
    if (!layout.broken) continue;
    broken = true;
    fmt::print(stderr, "failed: {}: {}\n", fmt::join(layout.values, ", "), layout.reason);
  }
  const bool none = !layouts.front().reason.empty();
  if (none) fmt::print(stderr, "no layout is feasible; the first: {}\n", layouts.front().reason);
  return broken || none ? 1 : 0;
}

}  // namespace

void add_sweep(CLI::App& app, Action& action) {
  CLI::App* command = app.add_subcommand("sweep", "Simulate a grid of layouts, best first");
  auto options = std::make_shared<SweepOptions>();
  options->inputs.threads = 0;
  add_inputs(*command, options->inputs);
  add_fault_option(*command, options->inputs);
  command
      ->add_option("--over", options->over,
                   "KEY=VALUES, such as parallel.tensor=1,2,4 or batch.micro_sequences=1..4; "
                   "repeatable, every combination is simulated")
      ->required()
      ->allow_extra_args(false);
  command->add_option("--by", options->by, "What the best is best by")
      ->check(CLI::IsMember(ranking_names()))
      ->capture_default_str();
  command->add_option("--top", options->top, "Rows of the table")->capture_default_str();
  command->add_option("--csv", options->csv, "File for all layouts as CSV");
  command->add_flag("--infeasible", options->infeasible,
                    "List every infeasible layout with its reason");
  command->add_flag("--allow-oom", options->allow_oom,
                    "Simulate also what needs more memory than its GPU has");
  command->callback([&action, options] { action = [options] { return sweep(*options); }; });
}

}  // namespace trainyard
