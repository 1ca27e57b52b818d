#pragma once
#include <string>
#include <vector>

#include "core/config/load.h"

namespace trainyard {

// A cluster of scenarios/clusters with `nodes` nodes, as the command line would load it.
inline Cluster load_cluster(const std::string& name, int nodes = 1) {
  const std::vector<std::string> sets{
      "cluster.preset=" + name,   "cluster.nodes=1",       "model.layers=8",
      "model.hidden=1024",        "model.heads=16",        "model.vocab=50304",
      "batch.sequence_length=1024", "batch.global_sequences=64", "training.precision=fp16",
      "model.attention=unfused"};
  Cluster cluster = load_job({}, sets, TRAINYARD_SCENARIOS).cluster;
  cluster.nodes = nodes;
  return cluster;
}

// A GPU of scenarios/gpus.
inline GpuProfile load_gpu(const std::string& name) {
  const std::vector<std::string> sets{
      "cluster.preset=a100-8",    "cluster.gpu=" + name,   "cluster.nodes=1",
      "model.layers=8",           "model.hidden=1024",     "model.heads=16",
      "model.vocab=50304",        "batch.sequence_length=1024", "batch.global_sequences=64",
      "training.precision=fp16",  "model.attention=unfused"};
  return load_job({}, sets, TRAINYARD_SCENARIOS).cluster.gpu;
}

}  // namespace trainyard
