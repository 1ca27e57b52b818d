// launch_driver PROCESSES GRACE_MS STOPPED_MS plain|prefixed COMMAND…: launch() as a program of its
// own, which the tests can interrupt and kill.
#include <fmt/core.h>

#include <cstdlib>
#include <string_view>

#include "backends/common/launcher.h"
#include "core/error.h"

int main(int argc, char** argv) {
  if (argc < 6) return 64;
  trainyard::LaunchOptions options;
  options.processes = std::atoi(argv[1]);
  options.grace = std::chrono::milliseconds(std::atoi(argv[2]));
  options.stopped_after = std::chrono::milliseconds(std::atoi(argv[3]));
  options.rank0_stdout_plain = argv[4] == std::string_view("plain");
  options.command.assign(argv + 5, argv + argc);
  options.store = "file:/nowhere";
  options.run_id = std::getenv("LAUNCH_TEST_RUN");
  try {
    return trainyard::launch(options);
  } catch (const trainyard::ConfigError& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 2;
  }
}
