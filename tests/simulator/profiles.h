#pragma once
#include <string>
#include <vector>

#include "core/config/load.h"

namespace trainyard {

// A cluster of scenarios/clusters with `nodes` nodes and, unless empty, another GPU of
// scenarios/gpus, loaded as the command line would.
inline Cluster load_cluster(const std::string& name, int nodes = 1, const std::string& gpu = "") {
  std::vector<std::string> sets{"cluster.preset=" + name,
                                "cluster.nodes=1",
                                "model.layers=8",
                                "model.hidden=1024",
                                "model.heads=16",
                                "model.vocab=50304",
                                "model.attention=unfused",
                                "batch.sequence_length=1024",
                                "batch.global_sequences=576",
                                "training.precision=fp16"};
  if (!gpu.empty()) sets.push_back("cluster.gpu=" + gpu);
  Cluster cluster = load_job({}, sets, TRAINYARD_SCENARIOS).cluster;
  cluster.nodes = nodes;
  return cluster;
}

inline GpuProfile load_gpu(const std::string& name) { return load_cluster("a100-8", 1, name).gpu; }

}  // namespace trainyard
