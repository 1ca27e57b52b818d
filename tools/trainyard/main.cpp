#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <exception>

#include "backends/common/launcher.h"
#include "backends/common/peer_error.h"
#include "backends/common/worker_place.h"
#include "core/error.h"
#include "tools/trainyard/command.h"

namespace trainyard {
namespace {

int run(int argc, char** argv) {
  CLI::App app("Plans and simulates parallel training of large language models.", "trainyard");
  Action action;
  app.require_subcommand(1);
  add_sim(app, action);
  add_plan(app, action);
  add_sweep(app, action);
  add_compare(app, action);
  add_net(app, action);
  add_validate(app, action);
  add_train(app, action);
  add_calibrate(app, action);
  add_data(app, action);
  add_convert(app, action);
  add_schema(app, action);
  add_version(app, action);
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& asked_for_help) {
    return app.exit(asked_for_help);
  } catch (const CLI::ParseError& error) {
    fmt::print(stderr, "{}\nRun with --help for the options.\n", error.what());
    return 2;
  }
  return action();
}

}  // namespace
}  // namespace trainyard

int main(int argc, char** argv) {
  try {
    return trainyard::run(argc, argv);
  } catch (const trainyard::ConfigError& error) {
    for (const std::string& violation : error.violations()) fmt::print(stderr, "{}\n", violation);
    return 2;
  } catch (const trainyard::InternalError& error) {
    fmt::print(stderr, "trainyard: internal error: {}\nPlease report it with the command line.\n",
               error.what());
    return 1;
  } catch (const trainyard::PeerGone& error) {
    fmt::print(stderr, "trainyard: {}\n", error.what());
    return trainyard::process_environment().contains(trainyard::kSupervised)
               ? trainyard::kPeerGoneCode
               : 1;
  } catch (const std::exception& error) {
    fmt::print(stderr, "trainyard: {}\n", error.what());
    return 1;
  }
}
