#include "simulator/communication.h"

#include <map>

namespace trainyard {
namespace {

std::int64_t milliseconds(double ms) { return microseconds(ms * 1e3).value; }

std::int64_t scaled(std::int64_t ns, double factor) {
  return factor == 1 ? ns : std::llround(static_cast<double>(ns) * factor);
}

// The measured time that stands in for this collective in ms; negative: none.
double measured_ms(const Measured& measured, const CollectiveSpec& spec) {
  if (spec.group == Group::tensor) return measured.tensor_collective_ms;
  if (spec.group == Group::data)
    return spec.op == Op::all_gather ? measured.parameter_all_gather_ms
                                     : measured.gradient_reduce_scatter_ms;
  if (spec.group == Group::embedding) return measured.embedding_all_reduce_ms;
  const bool norm = spec.group == Group::model || spec.group == Group::world;
  // The measured norm is charged to its first kernel.
  return norm && measured.gradient_norm_ms >= 0 ? 0 : -1;
}

}  // namespace

CommunicationSpecs::CommunicationSpecs(const ProgramSet& programs)
    : collectives{{Op::all_gather, Group::tensor, {}}} {
  std::map<CollectiveSpec, std::uint32_t> known;
  std::map<Bytes, std::uint32_t> known_messages;
  for (const auto& program : programs.by_stage) {
    auto& row = of.emplace_back(program->code.size(), kNone);
    for (std::size_t i = 0; i < program->code.size(); ++i) {
      const Instr& instr = program->code[i];
      if (instr.op == Op::send || instr.op == Op::recv) {
        const auto [at, is_new] = known_messages.try_emplace(
            instr.bytes, static_cast<std::uint32_t>(known_messages.size()));
        if (is_new) messages.push_back(instr.bytes);
        row[i] = at->second;
      } else if (instr.op >= Op::all_gather && instr.op <= Op::broadcast) {
        const CollectiveSpec spec{instr.op, instr.group, instr.bytes};
        const auto [at, is_new] =
            known.try_emplace(spec, static_cast<std::uint32_t>(collectives.size()));
        if (is_new) collectives.push_back(spec);
        row[i] = at->second;
      }
    }
  }
}

CommunicationTimes::CommunicationTimes(const Job& job, const CommunicationSpecs& specs,
                                       const RankTopology& topology, const Costs& costs,
                                       const CostScale& scale)
    : shapes_(topology.shapes().size()), routes_(topology.routes().size()) {
  collectives_.resize(specs.collectives.size() * shapes_);
  for (std::size_t i = 1; i < specs.collectives.size(); ++i) {
    const CollectiveSpec& spec = specs.collectives[i];
    const double factor = spec.group == Group::tensor ? scale.tensor_comm : scale.data_comm;
    const double given = measured_ms(job.measured, spec);
    for (std::size_t at = 0; at < shapes_; ++at) {
      const GroupShape& shape = topology.shapes()[at];
      const std::int64_t modelled =
          shape.ranks == 1 ? 0 : costs.collective(spec.op, shape, spec.bytes).value;
      collectives_[i * shapes_ + at] = scaled(given >= 0 ? milliseconds(given) : modelled, factor);
    }
  }
  const double given = job.measured.pipeline_transfer_ms;
  for (const Bytes bytes : specs.messages)
    for (const Route& route : topology.routes())
      messages_.push_back(
          scaled(given >= 0 ? milliseconds(given) : costs.transfer(bytes, route).value,
                 scale.pipeline_comm));
}

}  // namespace trainyard
