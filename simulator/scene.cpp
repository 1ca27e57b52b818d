#include "simulator/scene.h"

#include "core/error.h"
#include "simulator/core_sharing.h"

namespace trainyard {

Scene::Scene(const Job& job, const ProgramSet& set, const SimulationOptions& options,
             const Costs& costs)
    : topology(job, set),
      disturbances(job, topology.mesh(), topology.placement()),
      specs(job, set, topology),
      times(job, specs, topology, costs, options.scale),
      flows(job, specs, topology, costs, options.scale),
      layout(make_layout(topology, disturbances,
                         options.fold && !flows.any() && job.cluster.node.cores == 0)),
      contention(job.cluster.gpu.collective_sm_slowdown),
      slowest_gpu(costs.slowest_gpu()) {
  check(set.by_stage.size() == static_cast<std::size_t>(layout.stages), "{} programs for {} stages",
        set.by_stage.size(), layout.stages);
  const CompileInputs inputs{job, specs, times, topology, flows, options.scale};
  for (const auto& program : set.by_stage)
    programs.push_back(
        compile(*program, make_durations(job, *program, costs, options.scale), inputs));
  match_peers(programs);
  if (job.cluster.node.cores > 0)
    on_shared_cores = share_cores(
        *this, {job.cluster.node.cores, threads_of_rank(job), job.running.bind_to_cores});
}

}  // namespace trainyard
