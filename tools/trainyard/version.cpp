#include <fmt/core.h>

#include "tools/trainyard/command.h"

namespace trainyard {

void add_version(CLI::App& app, Action& action) {
  CLI::App* command = app.add_subcommand("version", "Print the version");
  command->callback([&action] {
    action = [] {
      fmt::print("trainyard {}\n", TRAINYARD_VERSION);
      return 0;
    };
  });
}

}  // namespace trainyard
