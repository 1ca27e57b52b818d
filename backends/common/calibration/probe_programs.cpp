#include "backends/common/calibration/probe_programs.h"

#include <initializer_list>

#include "core/plan/kernels.h"

namespace trainyard {
namespace {

class Probe {
 public:
  Probe(std::int32_t stage, std::int64_t tick_elements) {
    program_.stage = stage;
    program_.passes.push_back({PassKind::forward, 0, 0});
    program_.kernels.push_back(per_parameter(KernelKind::zero, tick_elements, 0, 4));
    tick_ = buffer("tick", tick_elements);
  }

  std::uint32_t buffer(const char* name, std::int64_t elements) {
    constexpr std::int64_t kAlignment = 64;
    BufferType type;
    type.name = name;
    type.logical = type.local = {1, elements};
    type.dtype = DType::fp32;
    type.memory = MemoryClass::communication;
    type.persistent = true;
    BufferSpec spec;
    spec.type = static_cast<std::uint32_t>(program_.buffer_types.size());
    spec.offset = program_.arena_bytes;
    const std::int64_t end = program_.arena_bytes.value + type.size().value;
    program_.arena_bytes = {(end + kAlignment - 1) / kAlignment * kAlignment};
    program_.persistent_bytes = program_.arena_bytes;
    program_.buffer_types.push_back(type);
    program_.buffers.push_back(spec);
    return static_cast<std::uint32_t>(program_.buffers.size() - 1);
  }

  std::uint32_t add(Instr instr, std::uint32_t wait, std::initializer_list<Operand> operands) {
    instr.waits[0] = wait;
    instr.pass = 0;
    instr.first_operand = static_cast<std::uint32_t>(program_.operands.size());
    instr.operands = static_cast<std::uint16_t>(operands.size());
    program_.operands.insert(program_.operands.end(), operands);
    program_.code.push_back(instr);
    return static_cast<std::uint32_t>(program_.code.size() - 1);
  }

  // The kernel between two calls.
  std::uint32_t tick(std::uint32_t wait) {
    Instr instr;
    instr.op = Op::kernel;
    instr.stream = Stream::compute;
    return add(instr, wait, {operand(tick_, Access::write)});
  }

  static Operand operand(std::uint32_t buffer, Access access) {
    return {buffer, static_cast<std::uint32_t>(access)};
  }

  Program take() { return std::move(program_); }

 private:
  Program program_;
  std::uint32_t tick_ = 0;
};

constexpr std::int64_t kNextToNothing = 16;

std::int64_t elements_of(Tick tick) { return tick == Tick::long_one ? 512 << 10 : kNextToNothing; }

Instr message(Op op, std::int32_t steps, Bytes bytes) {
  Instr instr;
  const bool sends = op == Op::send, forward = sends == (steps > 0);
  instr.op = op;
  instr.group = Group::pipeline;
  instr.peer = static_cast<std::int16_t>(steps);
  instr.bytes = bytes;
  instr.stream = forward ? (sends ? Stream::forward_out : Stream::forward_in)
                         : (sends ? Stream::backward_out : Stream::backward_in);
  instr.what = forward ? 0 : 1;
  return instr;
}

}  // namespace

Job probe_job() {
  Job job;
  job.batch = {1, 1, 1};
  job.model.layers = job.model.hidden = job.model.heads = job.model.kv_heads = 1;
  job.model.head_dim = job.model.ffn = job.model.vocab = 1;
  job.training.precision = Precision::fp32;
  return job;
}

Program kernel_probe(std::int32_t repeats, Tick tick) {
  Probe probe(0, elements_of(tick));
  for (std::int32_t i = 0; i <= repeats; ++i) probe.tick(kNone);
  return probe.take();
}

Program copy_probe(Bytes bytes, std::int32_t repeats) {
  Probe probe(0, kNextToNothing);
  const std::int64_t tokens = bytes.value / size_of(DType::int32);
  const std::uint32_t staged = probe.buffer("staged", tokens),
                      copied = probe.buffer("copied", tokens);
  Instr load;
  load.op = Op::host;
  load.stream = Stream::copy;
  load.what = static_cast<std::uint32_t>(HostWork::load_batch);
  load.bytes = bytes;
  probe.add(load, kNone, {Probe::operand(staged, Access::write)});
  Instr copy = load;
  copy.op = Op::copy;
  for (std::int32_t i = 0; i < repeats; ++i)
    probe.add(copy, kNone,
              {Probe::operand(staged, Access::read), Probe::operand(copied, Access::write)});
  return probe.take();
}

Program collective_probe(Op op, Bytes bytes, std::int32_t members, std::int32_t repeats,
                         Tick tick) {
  Probe probe(0, elements_of(tick));
  const std::int64_t elements = bytes.value / size_of(DType::fp32);
  const std::uint32_t full = probe.buffer("full", elements);
  const std::uint32_t shard = probe.buffer("shard", elements / members);
  Instr call;
  call.op = op;
  call.stream = Stream::data;
  call.group = Group::data;
  call.bytes = bytes;
  std::uint32_t last = kNone;
  for (std::int32_t i = 0; i < repeats; ++i) {
    const std::uint32_t before = probe.tick(last);
    if (op == Op::all_gather)
      last = probe.add(call, before,
                       {Probe::operand(shard, Access::read), Probe::operand(full, Access::write)});
    else if (op == Op::reduce_scatter)
      last = probe.add(call, before,
                       {Probe::operand(full, Access::read), Probe::operand(shard, Access::write)});
    else  // of a broadcast, the first member's
      last = probe.add(call, before, {Probe::operand(full, Access::update)});
  }
  probe.tick(last);
  return probe.take();
}

Program message_probe(std::int32_t stage, Bytes bytes, std::int32_t repeats) {
  Probe probe(stage, kNextToNothing);
  const std::int64_t elements = bytes.value / size_of(DType::fp32);
  const std::uint32_t out = probe.buffer("out", elements), in = probe.buffer("in", elements);
  const bool first = stage % 2 == 0;
  const std::int32_t peer = first ? 1 : -1;
  std::uint32_t last = kNone;
  const auto receive = [&] {
    last = probe.tick(
        probe.add(message(Op::recv, peer, bytes), kNone, {Probe::operand(in, Access::write)}));
  };
  last = probe.tick(last);
  for (std::int32_t i = 0; i < repeats; ++i) {
    if (!first) receive();
    probe.add(message(Op::send, peer, bytes), last, {Probe::operand(out, Access::read)});
    if (first) receive();
  }
  return probe.take();
}

}  // namespace trainyard
