#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "tools/trainyard/command.h"
#include "tools/trainyard/inputs.h"
#include "tools/trainyard/output.h"

namespace trainyard {

// What every `net` command is told: a cluster by name or in scenario files, and how many GPUs of
// it.
struct NetInputs {
  Inputs inputs;
  std::string cluster;    // preset; empty: the files say
  std::int64_t gpus = 0;  // 0: all the files have
};

void add_net_inputs(CLI::App& command, NetInputs& net);

// The cluster with `gpus` GPUs or more, in whole nodes. Throws ConfigError.
Job load_net(const NetInputs& net);

// The subcommands of `net`.
void add_net_topo(CLI::App& net, Action& action);
void add_net_bench(CLI::App& net, Action& action);
void add_net_dcqcn(CLI::App& net, Action& action);
void add_net_node(CLI::App& net, Action& action);

}  // namespace trainyard
