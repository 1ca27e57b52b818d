#include "tools/trainyard/validate.h"

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "tools/trainyard/command.h"
#include "tools/trainyard/inputs.h"

namespace trainyard {
namespace {

struct ValidateOptions {
  Inputs inputs;
  std::string runs, kernels, collectives, assumptions, html;
  bool rows = false, no_source_rules = false;
};

std::vector<ValidatedRow> predict(const ValidateOptions& options, const std::string& assumptions) {
  if (!options.kernels.empty()) return validate_kernels({options.kernels, assumptions});
  if (!options.collectives.empty()) return validate_collectives({options.collectives, assumptions});
  return validate_runs({options.runs, assumptions}, options.inputs.threads,
                       !options.no_source_rules);
}

int validate(const ValidateOptions& options) {
  const std::string assumptions = options.assumptions.empty()
                                      ? scenario_root() + "/published/assumptions.toml"
                                      : options.assumptions;
  Inputs inputs = options.inputs;
  inputs.files = {options.runs + options.kernels + options.collectives, assumptions};
  Output output(inputs, "validate");
  output.expect_extra(options.html);
  const std::vector<ValidatedRow> rows = predict(options, assumptions);
  if (!options.html.empty()) output.write_extra(options.html, validation_html(rows));
  output.write(validation_json(rows), validation_text(rows, options.rows));
  return 0;
}

}  // namespace

void add_validate(CLI::App& app, Action& action) {
  CLI::App* command =
      app.add_subcommand("validate", "Predict a table of measurements and show the errors");
  auto options = std::make_shared<ValidateOptions>();
  options->inputs.threads = 0;
  add_outputs(*command, options->inputs);
  command->add_option("--threads", options->inputs.threads, "Threads for runs; 0: all cores")
      ->check(CLI::Range(0, 1024));
  CLI::Option_group* table = command->add_option_group("table", "What is predicted; one of");
  table->add_option("--runs", options->runs, "CSV file of training runs");
  table->add_option("--kernels", options->kernels, "CSV file of kernel times");
  table->add_option("--collectives", options->collectives, "CSV file of collective times");
  table->require_option(1);
  command->add_option("--assumptions", options->assumptions,
                      "Rules for what the tables leave out, instead of the shipped ones");
  command
      ->add_flag("--without-source-rules", options->no_source_rules,
                 "Predict runs as if nobody had written rules for their sources")
      ->needs("--runs");
  command->add_option("--html", options->html, "File for a page with scatter plots");
  command->add_flag("--rows", options->rows, "Print every row, not only its family");
  command->callback([&action, options] { action = [options] { return validate(*options); }; });
}

}  // namespace trainyard
