#include <CLI/CLI.hpp>

#include "tools/trainyard/command.h"
#include "tools/trainyard/output.h"

namespace trainyard {

void add_version(CLI::App& app, Action& action) {
  CLI::App* command = app.add_subcommand("version", "Print the version");
  command->callback([&action] {
    action = [] {
      print_all("trainyard " TRAINYARD_VERSION "\n");
      return 0;
    };
  });
}

}  // namespace trainyard
