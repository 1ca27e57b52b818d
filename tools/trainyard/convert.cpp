#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "backends/common/checkpoint_store.h"
#include "backends/common/hugging_face.h"
#include "backends/common/model_json.h"
#include "core/error.h"
#include "tools/trainyard/command.h"
#include "tools/trainyard/output.h"

namespace trainyard {
namespace {

struct ConvertOptions {
  std::string input, out, from, to;
};

// The [model] section and sequence length that train the imported weights.
std::string scenario_text(const HfModel& hf) {
  std::string text = "[model]\n";
  const nlohmann::ordered_json model = model_json(hf.model);
  for (const auto& [key, value] : model.items())
    text += fmt::format("{} = {}\n", key, value.dump());
  return text + fmt::format("[batch]\nsequence_length = {}\n", hf.sequence);
}

int convert(const ConvertOptions& options) {
  if (!options.from.empty()) {
    const HfFamily family = hf_family_of(options.from);
    const std::filesystem::path checkpoint = import_hf(options.input, family, options.out);
    print_all(fmt::format("# {}\n{}", checkpoint.string(),
                          scenario_text(read_hf_config(options.input, family))));
    return 0;
  }
  const std::string problem = checkpoint_problem(options.input);
  if (!problem.empty()) throw ConfigError(problem);
  export_hf(options.input, hf_family_of(options.to), options.out);
  print_all(fmt::format("{}\n", options.out));
  return 0;
}

}  // namespace

void add_convert(CLI::App& app, Action& action) {
  CLI::App* command =
      app.add_subcommand("convert", "Turn Hugging Face weights into a checkpoint, or back");
  auto options = std::make_shared<ConvertOptions>();
  command->add_option("input", options->input, "Model folder, or a checkpoint (step-…)")
      ->required();
  command->add_option("--out", options->out, "Folder of checkpoints, or model folder, to write")
      ->required();
  const auto families = CLI::IsMember({"hf-gpt2", "hf-llama"});
  CLI::Option* from =
      command->add_option("--from", options->from, "hf-gpt2 or hf-llama: makes a checkpoint")
          ->check(families);
  CLI::Option* to =
      command->add_option("--to", options->to, "hf-gpt2 or hf-llama: makes a model folder")
          ->check(families);
  from->excludes(to);
  command->callback([&action, options] {
    if (options->from.empty() == options->to.empty())
      throw CLI::RequiredError("one of --from and --to");
    action = [options] { return convert(*options); };
  });
}

}  // namespace trainyard
