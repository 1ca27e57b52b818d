#include "tools/trainyard/net.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "core/error.h"

namespace trainyard {

void add_net_inputs(CLI::App& command, NetInputs& net) {
  command.add_option("files", net.inputs.files, "Scenario files; only their cluster matters");
  command.add_option("--cluster", net.cluster, "Preset of scenarios/clusters, without .toml");
  command.add_option("--gpus", net.gpus, "GPUs, in whole nodes")->check(CLI::Range(1, 1 << 24));
  command.add_option("--set", net.inputs.sets, "KEY=VALUE, wins over the files; repeatable")
      ->allow_extra_args(false);
  add_seed(command, net.inputs, "Seed of queue pair numbers and hashes");
  add_outputs(command, net.inputs);
}

Job load_net(const NetInputs& net) {
  std::vector<std::string> sets;
  if (!net.cluster.empty()) sets.push_back("cluster.preset=" + net.cluster);
  if (net.inputs.files.empty() && net.cluster.empty())
    throw ConfigError("which cluster? Give --cluster NAME or a scenario file");
  Job job = load_network(net.inputs, sets);
  const std::int64_t per_node = job.cluster.node.gpus;
  if (net.gpus % per_node != 0)
    throw ConfigError(fmt::format("--gpus {}: nodes have {} GPUs; nearest: {}", net.gpus, per_node,
                                  (net.gpus / per_node + 1) * per_node));
  const std::int64_t nodes = net.gpus / per_node;
  if (nodes > job.cluster.nodes) {
    sets.push_back(fmt::format("cluster.nodes={}", nodes));
    job = load_network(net.inputs, sets);
  }
  if (job.name.empty()) job.name = net.cluster;
  return job;
}

void add_net(CLI::App& app, Action& action) {
  CLI::App* command = app.add_subcommand("net", "The network alone: its shape, and collectives");
  command->require_subcommand(1);
  add_net_topo(*command, action);
  add_net_bench(*command, action);
  add_net_dcqcn(*command, action);
  add_net_node(*command, action);
}

}  // namespace trainyard
