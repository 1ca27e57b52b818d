#pragma once
#include <memory>
#include <utility>
#include <vector>

#include "core/program/program.h"
#include "simulator/execute.h"

namespace trainyard {

// Costs that a test can add up in its head: a kernel takes as many ns as it has FLOPs, a
// collective or message as many as it has bytes.
class UnitCosts final : public Costs {
 public:
  Time kernel(const KernelSpec& kernel) const override {
    return nanoseconds(static_cast<std::int64_t>(kernel.flops));
  }
  Time collective(Op, const GroupShape&, Bytes bytes) const override {
    return nanoseconds(bytes.value);
  }
  Time transfer(Bytes bytes, const Route&) const override { return nanoseconds(bytes.value); }
};

// A program written by hand, with times in ns instead of sizes and waits instead of buffers. All
// functions return the index of the new instruction.
class HandBuilt {
 public:
  using Waits = std::vector<std::uint32_t>;  // at most two

  explicit HandBuilt(int stage = 0) { program_.stage = stage; }

  void pass(PassKind kind, std::int32_t micro_batch = 0) {
    program_.passes.push_back({kind, 0, micro_batch});
  }
  std::uint32_t kernel(double ns, const Waits& waits = {}, KernelKind kind = KernelKind::add) {
    KernelSpec spec;
    spec.kind = kind;
    spec.flops = ns;
    program_.kernels.push_back(spec);
    Instr instr = make(Op::kernel, Stream::compute, waits);
    instr.what = static_cast<std::uint32_t>(program_.kernels.size() - 1);
    return add(instr);
  }
  std::uint32_t gemm(double ns, const Waits& waits = {}) {
    return kernel(ns, waits, KernelKind::gemm_forward);
  }
  std::uint32_t collective(Group group, std::int64_t ns, Stream stream, const Waits& waits = {}) {
    Instr instr = make(Op::all_reduce, stream, waits);
    instr.group = group;
    instr.bytes = {ns};
    return add(instr);
  }
  std::uint32_t send(int steps, std::uint32_t tag, std::int64_t ns, const Waits& waits = {}) {
    return transfer(Op::send, steps, steps > 0 ? Stream::forward_out : Stream::backward_out,
                    {tag, ns, waits});
  }
  std::uint32_t recv(int steps, std::uint32_t tag, std::int64_t ns, const Waits& waits = {}) {
    return transfer(Op::recv, steps, steps < 0 ? Stream::forward_in : Stream::backward_in,
                    {tag, ns, waits});
  }
  std::uint32_t host(HostWork work, const Waits& waits = {}, Stream stream = Stream::host) {
    Instr instr = make(Op::host, stream, waits);
    instr.what = static_cast<std::uint32_t>(work);
    return add(instr);
  }
  std::uint32_t join(Stream stream, const Waits& waits) {
    return add(make(Op::join, stream, waits));
  }
  // The last `count` instructions start and end together.
  void group_last(std::size_t count) {
    for (std::size_t i = program_.code.size() - count; i + 1 < program_.code.size(); ++i)
      program_.code[i].flags |= kGroupedWithNext;
  }
  Instr& at(std::uint32_t instr) { return program_.code[instr]; }

  const Program& program() const { return program_; }

 private:
  struct Message {
    std::uint32_t tag;
    std::int64_t ns;
    const Waits& waits;
  };
  std::uint32_t transfer(Op op, int steps, Stream stream, const Message& message) {
    Instr instr = make(op, stream, message.waits);
    instr.group = Group::pipeline;
    instr.peer = static_cast<std::int16_t>(steps);
    instr.what = message.tag;
    instr.bytes = {message.ns};
    return add(instr);
  }
  Instr make(Op op, Stream stream, const Waits& waits) const {
    Instr instr;
    instr.op = op;
    instr.stream = stream;
    for (std::size_t k = 0; k < waits.size(); ++k) instr.waits.at(k) = waits[k];
    if (!program_.passes.empty())
      instr.pass = static_cast<std::uint32_t>(program_.passes.size() - 1);
    return instr;
  }
  std::uint32_t add(const Instr& instr) {
    program_.code.push_back(instr);
    return static_cast<std::uint32_t>(program_.code.size() - 1);
  }

  Program program_;
};

inline Job hand_job(std::int32_t tensor = 1, std::int32_t pipeline = 1, std::int32_t data = 1) {
  Job job;
  job.parallel.tensor = tensor;
  job.parallel.pipeline = pipeline;
  job.parallel.data = data;
  job.batch = {data, 1, 1};
  job.cluster.nodes = (tensor * pipeline * data + 7) / 8;
  return job;
}

inline ProgramSet set_of(const std::vector<HandBuilt>& stages) {
  ProgramSet set;
  for (const HandBuilt& stage : stages)
    set.by_stage.push_back(std::make_shared<const Program>(stage.program()));
  return set;
}

inline Fault slow(std::int32_t rank, double factor, Time at = {}, Time lasts = kNever) {
  Fault fault;
  fault.kind = Fault::Kind::slow;
  fault.rank = rank;
  fault.factor = factor;
  fault.at = at;
  fault.lasts = lasts;
  return fault;
}
inline Fault late(std::int32_t rank, Time at) {
  Fault fault;
  fault.kind = Fault::Kind::late;
  fault.rank = rank;
  fault.at = at;
  return fault;
}
inline Fault jitter(double sigma) {
  Fault fault;
  fault.kind = Fault::Kind::jitter;
  fault.sigma = sigma;
  return fault;
}

inline SimulationOptions every_lane(int threads = 1) {
  SimulationOptions options;
  options.fold = false;
  options.threads = threads;
  return options;
}

// Runs with UnitCosts and traces all ranks.
inline SimulationResult run(const Job& job, const std::vector<HandBuilt>& stages,
                            SimulationOptions options = every_lane()) {
  for (std::int32_t r = 0; r < job.gpus(); ++r) options.traced.push_back(RankId(r));
  return execute(job, set_of(stages), options, UnitCosts());
}

// Start or end, in ns, of one instruction of one rank.
inline std::int64_t start_of(const SimulationResult& result, std::int32_t rank,
                             std::uint32_t instr) {
  for (const TraceEvent& event : result.trace)
    if (event.rank == RankId(rank) && event.instr == instr) return event.start.value;
  return -1;
}
inline std::int64_t end_of(const SimulationResult& result, std::int32_t rank, std::uint32_t instr) {
  for (const TraceEvent& event : result.trace)
    if (event.rank == RankId(rank) && event.instr == instr) return event.end.value;
  return -1;
}
inline std::int64_t part(const SimulationResult& result, Cause cause) {
  return result.breakdown[static_cast<std::size_t>(cause)].value;
}

// A pipeline of equal stages with one chunk each. Message tags are the micro-batch going forward
// and 1000 more going backward.
struct PipelineShape {
  int stages, micro_batches;
  double forward, backward;  // ns
  std::int64_t message = 0;  // ns
};

inline void add_forward(HandBuilt& stage, const PipelineShape& shape, int s, int mb) {
  stage.pass(PassKind::forward, mb);
  HandBuilt::Waits waits;
  const auto tag = static_cast<std::uint32_t>(mb);
  if (s > 0) waits.push_back(stage.recv(-1, tag, shape.message));
  const std::uint32_t kernel = stage.kernel(shape.forward, waits);
  if (s + 1 < shape.stages) stage.send(1, tag, shape.message, {kernel});
}

inline void add_backward(HandBuilt& stage, const PipelineShape& shape, int s, int mb) {
  stage.pass(PassKind::backward, mb);
  HandBuilt::Waits waits;
  const auto tag = static_cast<std::uint32_t>(1000 + mb);
  if (s + 1 < shape.stages) waits.push_back(stage.recv(1, tag, shape.message));
  const std::uint32_t kernel = stage.kernel(shape.backward, waits);
  if (s > 0) stage.send(-1, tag, shape.message, {kernel});
}

inline std::vector<HandBuilt> one_f_one_b(const PipelineShape& shape) {
  std::vector<HandBuilt> stages;
  for (int s = 0; s < shape.stages; ++s) {
    HandBuilt& stage = stages.emplace_back(s);
    const int warm_up = std::min(shape.micro_batches, shape.stages - 1 - s);
    for (int mb = 0; mb < warm_up; ++mb) add_forward(stage, shape, s, mb);
    for (int mb = warm_up; mb < shape.micro_batches; ++mb) {
      add_forward(stage, shape, s, mb);
      add_backward(stage, shape, s, mb - warm_up);
    }
    for (int mb = shape.micro_batches - warm_up; mb < shape.micro_batches; ++mb)
      add_backward(stage, shape, s, mb);
  }
  return stages;
}

inline std::vector<HandBuilt> gpipe(const PipelineShape& shape) {
  std::vector<HandBuilt> stages;
  for (int s = 0; s < shape.stages; ++s) {
    HandBuilt& stage = stages.emplace_back(s);
    for (int mb = 0; mb < shape.micro_batches; ++mb) add_forward(stage, shape, s, mb);
    for (int mb = 0; mb < shape.micro_batches; ++mb) add_backward(stage, shape, s, mb);
  }
  return stages;
}

}  // namespace trainyard
