#pragma once
#include <optional>
#include <string>
#include <vector>

#include "core/config/job.h"

namespace CLI {
class App;
}

namespace trainyard {

// Where presets lie: named by the user, installed beside the program, or in the source tree.
std::string scenario_root();

// The options every command that takes a scenario shares.
struct Inputs {
  std::vector<std::string> files;
  std::vector<std::string> sets;  // key=value, later ones win
  std::vector<std::string> faults;
  std::optional<std::uint64_t> seed;
  int threads = 1;
  std::string out_dir;  // empty: none
  std::string json;     // empty: none; "-": standard output, which then holds nothing else
};

void add_inputs(CLI::App& command, Inputs& inputs);
// --seed, which is no negative number.
void add_seed(CLI::App& command, Inputs& inputs, const std::string& help);
// Of the options of add_inputs only those that say where results go: --out, --json.
void add_outputs(CLI::App& command, Inputs& inputs);
void add_fault_option(CLI::App& command, Inputs& inputs);

// Files merged left to right, then `sets`, then `more_sets`, seed and faults; validated. Throws
// ConfigError with every violation.
Job load(const Inputs& inputs, const std::vector<std::string>& more_sets = {});

// The same for commands that need no more than a cluster and its network.
Job load_network(const Inputs& inputs, const std::vector<std::string>& more_sets);

}  // namespace trainyard
