#pragma once
#include "core/config/job.h"
#include "core/config/report.h"

namespace trainyard {

// Fills in what the scenario leaves to be computed from other keys: head_dim, kv_heads, ffn,
// parallel.data, cluster.nodes. Refuses the key when that is impossible.
void complete(Job& job, Report& report);
// Of these only parallel.data and cluster.nodes.
void complete_world(Job& job, Report& report);

}  // namespace trainyard
