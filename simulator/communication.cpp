#include "simulator/communication.h"

#include <algorithm>
#include <map>

#include "core/program/happens_before.h"
#include "simulator/step.h"

namespace trainyard {
namespace {

std::int64_t milliseconds(double ms) { return microseconds(ms * 1e3).value; }

std::int64_t scaled(std::int64_t ns, double factor) {
  return factor == 1 ? ns : std::llround(static_cast<double>(ns) * factor);
}

// The measured step total that covers this collective, if any.
double Measured::*step_total(const CollectiveSpec& spec) {
  if (spec.group == Group::data)
    return spec.op == Op::all_gather ? &Measured::parameter_all_gather_ms
                                     : &Measured::gradient_reduce_scatter_ms;
  if (spec.group == Group::embedding) return &Measured::embedding_all_reduce_ms;
  return nullptr;
}

// Bytes that the stage which moves most moves in collectives covered by `total`.
std::int64_t covered_bytes(const CommunicationSpecs& specs, double Measured::*total) {
  std::int64_t most = 1;
  for (const auto& uses : specs.uses) {
    std::int64_t bytes = 0;
    for (std::size_t i = 1; i < uses.size(); ++i)
      if (step_total(specs.collectives[i]) == total)
        bytes += uses[i] * specs.collectives[i].bytes.value;
    most = std::max(most, bytes);
  }
  return most;
}

// The measured time of this collective in ms; negative: none.
double measured_ms(const Measured& measured, const CommunicationSpecs& specs,
                   const CollectiveSpec& spec) {
  if (spec.group == Group::tensor) return measured.tensor_collective_ms;
  if (double Measured::*total = step_total(spec); total != nullptr)
    return measured.*total * static_cast<double>(spec.bytes.value) /
           static_cast<double>(covered_bytes(specs, total));
  if (spec.group == Group::context) return -1;
  // The measured norm is charged to its first kernel.
  return measured.gradient_norm_ms >= 0 ? 0 : -1;
}

// Megatron-LM's scatter/gather (arXiv 2104.04473, section 4.1) and DeepSpeed's partitioned pipeline
// messages: all tensor ranks hold the same activations, so each sends a part of its own.
std::int32_t message_parts(const Job& job) {
  return job.software.scattered_messages && !job.parallel.sequence ? job.parallel.tensor : 1;
}

// What of `instr` replicas exchange. Programs add up gradients in fp32.
Bytes collective_bytes(const Job& job, const Instr& instr) {
  const bool sums = instr.op == Op::all_reduce || instr.op == Op::reduce_scatter;
  const bool gradients = instr.group == Group::data || instr.group == Group::embedding;
  const bool halves = !job.software.fp32_gradients && job.training.precision != Precision::fp32;
  return halves && sums && gradients ? instr.bytes / 2 : instr.bytes;
}

// The slowest stage's gathering of `bytes` that its tensor ranks received in parts.
std::int64_t gathering_ns(const Job& job, const RankTopology& topology, const Costs& costs,
                          Bytes bytes) {
  if (message_parts(job) == 1) return 0;
  std::int64_t slowest = 0;
  for (std::int32_t stage = 0; stage < job.stages(); ++stage) {
    Coord coord;
    coord[Axis::pipeline] = stage;
    const GroupShape& shape = topology.shapes()[topology.shape(Group::tensor, coord)];
    slowest = std::max(slowest, costs.collective(Op::all_gather, shape, bytes).value);
  }
  return slowest;
}

// What instruction `i`'s group sends beside it until it has left: to the same side of the node's
// border, at equal rates. The first replica's first rank stands for all.
Bytes sent_beside(const Program& program, std::size_t i, const RankTopology& topology) {
  const std::span<const Instr> code(program.code);
  if (code[i].op != Op::send) return {};
  std::size_t first = i;
  while (first > 0 && (code[first - 1].flags & kGroupedWithNext) != 0) --first;
  Coord coord;
  coord[Axis::pipeline] = program.stage;
  const RankId rank = topology.mesh().rank(coord);
  const auto leaves = [&](const Instr& instr) {
    return topology.routes()[topology.route(rank, instr.peer)].tier != Tier::node;
  };
  Bytes beside;
  for (const Instr& other : group_at(code, first))
    if (other.op == Op::send && &other != &code[i] && leaves(other) == leaves(code[i]))
      beside += std::min(other.bytes, code[i].bytes);
  return beside;
}

}  // namespace

CommunicationSpecs::CommunicationSpecs(const Job& job, const ProgramSet& programs,
                                       const RankTopology& topology)
    : collectives{{Op::all_gather, Group::tensor, {}}} {
  std::map<CollectiveSpec, std::uint32_t> known;
  std::map<MessageSpec, std::uint32_t> known_messages;
  for (const auto& program : programs.by_stage) {
    auto& row = of.emplace_back(program->code.size(), kNone);
    auto& used = uses.emplace_back();
    for (std::size_t i = 0; i < program->code.size(); ++i) {
      const Instr& instr = program->code[i];
      if (instr.op == Op::send || instr.op == Op::recv) {
        const MessageSpec spec{instr.bytes / message_parts(job),
                               sent_beside(*program, i, topology) / message_parts(job)};
        const auto [at, is_new] =
            known_messages.try_emplace(spec, static_cast<std::uint32_t>(known_messages.size()));
        if (is_new) messages.push_back(spec);
        row[i] = at->second;
      } else if (instr.op >= Op::all_gather && instr.op <= Op::broadcast) {
        const CollectiveSpec spec{instr.op, instr.group, collective_bytes(job, instr)};
        const auto [at, is_new] =
            known.try_emplace(spec, static_cast<std::uint32_t>(collectives.size()));
        if (is_new) collectives.push_back(spec);
        row[i] = at->second;
        used.resize(std::max(used.size(), collectives.size()));
        ++used[at->second];
      }
    }
  }
}

CommunicationTimes::CommunicationTimes(const Job& job, const CommunicationSpecs& specs,
                                       const RankTopology& topology, const Costs& costs,
                                       const CostScale& scale)
    : shapes_(topology.shapes().size()), routes_(topology.routes().size()) {
  collectives_.resize(specs.collectives.size() * shapes_);
  collective_work_.resize(collectives_.size());
  for (std::size_t i = 1; i < specs.collectives.size(); ++i) {
    const CollectiveSpec& spec = specs.collectives[i];
    const double factor = within_layers(spec.group) ? scale.tensor_comm : scale.data_comm;
    const double given = measured_ms(job.measured, specs, spec);
    for (std::size_t at = 0; at < shapes_; ++at) {
      const GroupShape& shape = topology.shapes()[at];
      const std::int64_t modelled =
          shape.ranks == 1 ? 0 : costs.collective(spec.op, shape, spec.bytes).value;
      collectives_[i * shapes_ + at] = scaled(given >= 0 ? milliseconds(given) : modelled, factor);
      if (given < 0 && shape.ranks > 1)
        collective_work_[i * shapes_ + at] =
            scaled(costs.collective_work(spec.op, shape, spec.bytes).value, factor);
    }
  }
  const double given = job.measured.pipeline_transfer_ms;
  // A measured time is that of messages as they were.
  const bool shares = std::ranges::find(job.cluster.measured_calls, op_name(Op::send),
                                        &MeasuredCall::op) == job.cluster.measured_calls.end();
  for (const auto& [bytes, beside] : specs.messages) {
    const Bytes sent = shares ? bytes + beside : bytes;
    message_work_.push_back(
        given >= 0 ? 0 : scaled(costs.transfer_work(bytes).value, scale.pipeline_comm));
    gathering_.push_back(
        given >= 0 ? 0
                   : scaled(gathering_ns(job, topology, costs, bytes * message_parts(job)),
                            scale.pipeline_comm));
    for (const Route& route : topology.routes())
      messages_.push_back(gathering_.back() + scaled(given >= 0 ? milliseconds(given)
                                                                : costs.transfer(sent, route).value,
                                                     scale.pipeline_comm));
  }
}

}  // namespace trainyard
