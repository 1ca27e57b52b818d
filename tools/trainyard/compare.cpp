#include "tools/trainyard/compare.h"

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "tools/trainyard/command.h"
#include "tools/trainyard/inputs.h"
#include "tools/trainyard/trace_read.h"

namespace trainyard {
namespace {

struct CompareOptions {
  std::string a, b;
  Inputs inputs;  // of these only where results go
  std::size_t top = 10;
};

int compare(const CompareOptions& options) {
  Output output(options.inputs, "compare");
  const TracedStep a = read_trace(options.a);
  const TracedStep b = read_trace(options.b);
  const StepComparison comparison = compare_steps(a, b, options.top);
  output.write(compare_json(comparison, a.program_hash), compare_text(comparison, options.top));
  return 0;
}

}  // namespace

void add_compare(CLI::App& app, Action& action) {
  CLI::App* command =
      app.add_subcommand("compare", "Lay two traces of one program over each other");
  auto options = std::make_shared<CompareOptions>();
  command->add_option("A", options->a, "Trace of a step, real or simulated")->required();
  command->add_option("B", options->b, "Trace that is compared with A")->required();
  command->add_option("--top", options->top, "How many instructions and ranks to list")
      ->check(CLI::Range(1, 1'000'000));
  add_outputs(*command, options->inputs);
  command->callback([&action, options] { action = [options] { return compare(*options); }; });
}

}  // namespace trainyard
