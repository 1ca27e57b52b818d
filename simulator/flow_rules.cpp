#include "simulator/flow_rules.h"

#include "network_models/network_models.h"

namespace trainyard {

FlowRules::FlowRules(const Job& job, const CommunicationSpecs& specs, const RankTopology& topology,
                     const Costs& costs, const CostScale& scale)
    : any_(network_model_info(job.network.model).contention), shapes_(topology.shapes().size()) {
  if (!any_) return;
  on_wire_ = costs.message_on_wire();
  const Measured& measured = job.measured;
  const bool messages = scale.pipeline_comm == 1 && !(measured.pipeline_transfer_ms >= 0);
  for (const Route& route : topology.routes())
    overhead_.push_back(messages && route.tier != Tier::node ? costs.message_overhead(route).value
                                                             : -1);
  const bool data = scale.data_comm == 1 && !(measured.gradient_reduce_scatter_ms >= 0) &&
                    !(measured.parameter_all_gather_ms >= 0);
  const bool embedding = scale.data_comm == 1 && !(measured.embedding_all_reduce_ms >= 0);
  const bool tensor = scale.tensor_comm == 1 && !(measured.tensor_collective_ms >= 0);
  const bool context = scale.tensor_comm == 1;
  const bool norm = scale.data_comm == 1 && !(measured.gradient_norm_ms >= 0);
  for (const CollectiveSpec& spec : specs.collectives) {
    const bool modelled =
        (data && spec.group == Group::data) || (embedding && spec.group == Group::embedding) ||
        (tensor && spec.group == Group::tensor) || (context && spec.group == Group::context) ||
        (norm && (spec.group == Group::model || spec.group == Group::world));
    for (const GroupShape& shape : topology.shapes())
      wirings_.push_back(modelled && shape.nodes > 1 && spec.bytes.value > 0
                             ? costs.wiring(spec.op, shape, spec.bytes)
                             : Wiring::none);
  }
}

bool FlowRules::tensor(std::uint32_t spec, std::int32_t stage, const RankTopology& topology) const {
  Coord group;
  group[Axis::pipeline] = stage;
  for (std::int32_t& data = group[Axis::data]; data < topology.mesh().size(Axis::data); ++data)
    for (group[Axis::context] = 0; group[Axis::context] < topology.mesh().size(Axis::context);
         ++group[Axis::context])
      if (collective(spec, topology.shape(Group::tensor, group))) return true;
  return false;
}

}  // namespace trainyard
