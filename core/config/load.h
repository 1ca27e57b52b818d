#pragma once
#include <string>
#include <vector>

#include "core/config/job.h"

namespace trainyard {

// Builds a job from TOML files, merged left to right, and `sets` such as "parallel.tensor=8" on
// top. Presets are looked for in scenario_root/{models,clusters,gpus}. Throws ConfigError that
// carries every violation found, each "file:line:column: key = value: what is wrong; what would
// be legal". Legal but doubtful choices are in Job::warnings.
Job load_job(const std::vector<std::string>& files, const std::vector<std::string>& sets,
             const std::string& scenario_root);

// The cluster, the network and the seed of such files alone: what they lack of a model and its
// training does not matter, and the mesh need not fill the cluster.
Job load_cluster(const std::vector<std::string>& files, const std::vector<std::string>& sets,
                 const std::string& scenario_root);

}  // namespace trainyard
