#include "simulator/scene.h"

#include "core/error.h"
#include "network_models/network_models.h"
#include "simulator/core_sharing.h"

namespace trainyard {

FlowRules::FlowRules(const Job& job, const CommunicationSpecs& specs, const RankTopology& topology,
                     const Costs& costs, const CostScale& scale)
    : any_(network_model_info(job.network.model).contention), shapes_(topology.shapes().size()) {
  if (!any_) return;
  const Measured& measured = job.measured;
  const bool messages = scale.pipeline_comm == 1 && !(measured.pipeline_transfer_ms >= 0);
  for (const Route& route : topology.routes())
    overhead_.push_back(messages && route.tier != Tier::node ? costs.message_overhead(route).value
                                                             : -1);
  const bool data = scale.data_comm == 1 && !(measured.gradient_reduce_scatter_ms >= 0) &&
                    !(measured.parameter_all_gather_ms >= 0);
  const bool embedding = scale.data_comm == 1 && !(measured.embedding_all_reduce_ms >= 0);
  for (const CollectiveSpec& spec : specs.collectives)
    for (const GroupShape& shape : topology.shapes())
      rings_.push_back(
          ((data && spec.group == Group::data) || (embedding && spec.group == Group::embedding)) &&
          shape.nodes > 1 && spec.bytes.value > 0 && costs.is_ring(spec.op, shape, spec.bytes));
}

Scene::Scene(const Job& job, const ProgramSet& set, const SimulationOptions& options,
             const Costs& costs)
    : topology(job, set),
      disturbances(job, topology.mesh(), topology.placement()),
      specs(set),
      times(job, specs, topology, costs, options.scale),
      flows(job, specs, topology, costs, options.scale),
      layout(make_layout(topology, disturbances,
                         options.fold && !flows.any() && job.cluster.node.cores == 0)),
      contention(job.cluster.gpu.collective_sm_slowdown),
      slowest_gpu(costs.slowest_gpu()) {
  check(set.by_stage.size() == static_cast<std::size_t>(layout.stages), "{} programs for {} stages",
        set.by_stage.size(), layout.stages);
  const CompileInputs inputs{job, specs, times, topology, options.scale};
  for (const auto& program : set.by_stage)
    programs.push_back(
        compile(*program, make_durations(job, *program, costs, options.scale), inputs));
  match_peers(programs);
  if (job.cluster.node.cores > 0)
    on_shared_cores = share_cores(
        *this, {job.cluster.node.cores, threads_of_rank(job), job.running.bind_to_cores});
}

}  // namespace trainyard
