#include "core/config/schema.h"

#include <CLI/CLI.hpp>

#include "core/error.h"
#include "tools/trainyard/command.h"
#include "tools/trainyard/output.h"

namespace trainyard {
namespace {

struct SchemaOptions {
  std::string key;
  bool markdown = false;
};

int print_schema(const SchemaOptions& options) {
  if (!options.key.empty() && find_row(options.key) == nullptr && !is_section(options.key))
    throw ConfigError(options.key + ": no such key or section; `trainyard schema` lists them all");
  print_all(
      describe_schema(options.markdown ? TextFormat::markdown : TextFormat::plain, options.key));
  return 0;
}

}  // namespace

void add_schema(CLI::App& app, Action& action) {
  CLI::App* command = app.add_subcommand("schema", "Print the reference of scenario keys");
  auto options = std::make_shared<SchemaOptions>();
  command->add_option("key", options->key, "Only this key or section, such as parallel.tensor");
  command->add_flag("--markdown", options->markdown, "As Markdown");
  command->callback([&action, options] { action = [options] { return print_schema(*options); }; });
}

}  // namespace trainyard
