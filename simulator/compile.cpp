#include "simulator/compile.h"

#include <algorithm>
#include <span>

#include "core/error.h"
#include "core/program/happens_before.h"
#include "simulator/windows.h"

namespace trainyard {
namespace {

bool is_transfer(const Instr& instr) { return instr.op == Op::send || instr.op == Op::recv; }
bool is_collective(const Instr& instr) {
  return instr.op >= Op::all_gather && instr.op <= Op::broadcast;
}

class Compiler {
 public:
  Compiler(const Program& program, const Durations& durations, const CompileInputs& inputs)
      : program_(program), durations_(durations), inputs_(inputs) {
    out_.source = &program;
    out_.stage = program.stage;
    out_.first.fill(kNone);
    out_.last.fill(kNone);
    out_.steps.reserve(program.code.size() + program.code.size() / 8 + 1);
    const GpuProfile& gpu = inputs.job.cluster.gpu;
    const double us = inputs.job.software.cuda_graphs ? gpu.graph_launch_us : gpu.host_launch_us;
    launch_ns_ = microseconds(us * inputs.scale.launch).value;
    contended_ = gpu.collective_sm_slowdown > 1;
  }

  CompiledProgram run() {
    const std::span<const Instr> code(program_.code);
    for (std::size_t i = 0; i < code.size();) {
      const auto group = group_at(code, i);
      if (is_transfer(code[i]))
        add_transfers(i, group);
      else
        add_plain(static_cast<std::uint32_t>(i));
      i += group.size();
    }
    Step guard;
    guard.stream = kAlways;
    out_.steps.push_back(guard);
    out_.instr_of.push_back(kNone);
    out_.previous.push_back(kNone);
    assign_slots(out_);
    return std::move(out_);
  }

 private:
  using Waits = std::array<std::uint32_t, 2>;  // steps, or kNone

  Waits waits_of(const Instr& instr) const {
    Waits waits{kNone, kNone};
    for (std::size_t k = 0; k < 2; ++k)
      if (instr.waits[k] != kNone) waits[k] = out_.step_of[instr.waits[k]];
    return waits;
  }

  std::uint32_t add(StepKind kind, Stream stream, Waits waits, std::uint32_t instr) {
    const auto at = static_cast<std::uint32_t>(out_.steps.size());
    const auto s = static_cast<std::size_t>(stream);
    Step step;
    step.kind = kind;
    step.stream = static_cast<std::uint8_t>(stream);
    for (std::size_t k = 0; k < 2; ++k)
      if (waits[k] != kNone) {
        step.waits[k] = waits[k];
        step.wait_streams[k] = out_.steps[waits[k]].stream;
      }
    if (issuer_ != kNone) {
      step.waits[2] = issuer_;
      step.wait_streams[2] = static_cast<std::uint8_t>(Stream::host);
    }
    step.issue_delay = issued_;
    (out_.last[s] == kNone ? out_.first[s] : out_.steps[out_.last[s]].next) = at;
    out_.previous.push_back(out_.last[s]);
    out_.last[s] = at;
    out_.steps.push_back(step);
    out_.instr_of.push_back(instr);
    return at;
  }

  void issue() { issued_ += launch_ns_; }

  void add_plain(std::uint32_t i) {
    const Instr& instr = program_.code[i];
    const Waits waits = waits_of(instr);
    if (instr.op == Op::kernel) {
      add_kernel(i, waits);
    } else if (is_collective(instr)) {
      add_collective(i, waits);
    } else {
      if (instr.op == Op::copy) issue();
      const std::uint32_t at = add(StepKind::timed, instr.stream, waits, i);
      out_.steps[at].duration = durations_.of[i];
      if (instr.stream == Stream::host) {
        issuer_ = at;
        issued_ = 0;
      }
      if (instr.stream == Stream::compute) note_waits(waits);
      out_.step_of.push_back(at);
    }
  }

  void add_kernel(std::uint32_t i, const Waits& waits) {
    const Instr& instr = program_.code[i];
    const KernelSpec& kernel = program_.kernels[instr.what];
    const bool gemm = contended_ && instr.stream == Stream::compute &&
                      kernel_info(kernel.kind).cost == CostClass::gemm;
    issue();
    if (instr.stream == Stream::compute) note_waits(waits);
    if (gemm) add_helpers();
    const std::uint32_t at = add(gemm ? StepKind::gemm : StepKind::kernel, instr.stream, waits, i);
    out_.steps[at].duration = durations_.of[i];
    out_.step_of.push_back(at);
    if (instr.stream == Stream::compute) out_.kernel_time += nanoseconds(durations_.of[i]);
    out_.flops += kernel.flops;
    out_.at_peak += peak_time(kernel);
  }

  Time peak_time(const KernelSpec& kernel) const {
    const GpuProfile& gpu = inputs_.job.cluster.gpu;
    double peak = std::max(gpu.peak_fp32.value, gpu.peak_tf32.value);
    if (kernel.dtype == DType::bf16) peak = gpu.peak_bf16.value;
    if (kernel.dtype == DType::fp16) peak = gpu.peak_fp16.value;
    if (multiplies_in_fp8(kernel, inputs_.job.software)) peak *= gpu.gemm.fp8_speedup;
    return peak > 0 ? seconds(kernel.flops / peak) : Time{};
  }

  // The rank's own work for the communication of instruction `i`, which then waits for it alone.
  Waits add_work(std::uint32_t i, std::int64_t ns, const Waits& waits) {
    if (ns == 0) return waits;
    const std::uint32_t at = add(StepKind::kernel, program_.code[i].stream, waits, i);
    out_.steps[at].duration = ns;
    return {kNone, kNone};
  }

  void add_collective(std::uint32_t i, Waits waits) {
    const Instr& instr = program_.code[i];
    std::uint32_t spec = inputs_.specs.of[static_cast<std::size_t>(program_.stage)][i];
    issue();
    std::uint32_t at = 0;
    Coord first;
    first[Axis::pipeline] = program_.stage;
    const std::uint32_t shape = inputs_.topology.shape(instr.group, first);
    if (within_layers(instr.group) && instr.pass != kNone &&
        durations_.free_collectives[instr.pass])
      spec = kFreeCollective;
    waits = add_work(i, inputs_.times.collective_work(spec, shape), waits);
    if (instr.group == Group::tensor &&
        !inputs_.flows.tensor(spec, program_.stage, inputs_.topology)) {
      at = add(StepKind::collective, instr.stream, waits, i);
      out_.steps[at].detail = spec;
    } else {
      at = add(StepKind::shared, instr.stream, waits, i);
      out_.steps[at].detail = static_cast<std::uint32_t>(out_.shared.size());
      SharedOp op;
      op.collective = spec;
      op.group = instr.group;
      auto& steps = out_.collectives[static_cast<std::size_t>(instr.group)];
      op.sequence = static_cast<std::uint32_t>(steps.size());
      steps.push_back(at);
      out_.shared.push_back(op);
    }
    out_.step_of.push_back(at);
    note_launch(at, inputs_.times.collective(spec, shape));
  }

  // A send/receive group becomes one step on the stream of its last member. Streams of other
  // members go up to it and on after it by steps that take no time.
  void add_transfers(std::size_t first, std::span<const Instr> group) {
    const Instr& main = group.back();
    issue();
    std::vector<std::uint32_t> before;
    std::vector<Stream> others;
    for (const Instr& member : group.first(group.size() - 1)) {
      check(is_transfer(member) && is_transfer(main),
            "stage {}: only sends and receives can be grouped", program_.stage);
      const std::uint32_t at = add(StepKind::timed, member.stream, waits_of(member), kNone);
      if (member.stream == main.stream) continue;
      before.push_back(at);
      if (std::find(others.begin(), others.end(), member.stream) == others.end())
        others.push_back(member.stream);
    }
    for (std::size_t k = 0; k < before.size(); k += 2)
      add(StepKind::timed, main.stream, {before[k], k + 1 < before.size() ? before[k + 1] : kNone},
          kNone);
    const auto last = static_cast<std::uint32_t>(first + group.size() - 1);
    std::int64_t work = 0;
    for (std::size_t k = 0; k < group.size(); ++k)
      work += inputs_.times.message_work(message_at(first + k));
    const Waits waits = add_work(last, work, waits_of(main));
    const std::uint32_t at = add(StepKind::shared, main.stream, waits, last);
    SharedOp op;
    op.first_transfer = static_cast<std::uint32_t>(out_.transfers.size());
    op.transfers = static_cast<std::uint32_t>(group.size());
    out_.steps[at].detail = static_cast<std::uint32_t>(out_.shared.size());
    out_.shared.push_back(op);
    for (std::size_t k = 0; k < group.size(); ++k) add_transfer(first + k, group[k]);
    out_.step_of.insert(out_.step_of.end(), group.size(), at);
    for (const Stream other : others) add(StepKind::timed, other, {at, kNone}, kNone);
    if (group.size() == 1 && main.op == Op::send) {
      Coord sender;
      sender[Axis::pipeline] = program_.stage;
      const std::uint32_t route =
          inputs_.topology.route(inputs_.topology.mesh().rank(sender), main.peer);
      note_launch(at, inputs_.times.message(out_.transfers.back().message, route));
    }
  }

  std::uint32_t message_at(std::size_t i) const {
    return inputs_.specs.of[static_cast<std::size_t>(program_.stage)][i];
  }

  void add_transfer(std::size_t i, const Instr& instr) {
    const std::int32_t stages = inputs_.topology.mesh().size(Axis::pipeline);
    TransferEnd end;
    end.peer_stage = (((program_.stage + instr.peer) % stages) + stages) % stages;
    end.message = message_at(i);
    end.instr = static_cast<std::uint32_t>(i);
    end.sends = instr.op == Op::send;
    end.bytes = inputs_.specs.messages[end.message].bytes;
    out_.transfers.push_back(end);
  }

  void note_launch(std::uint32_t at, std::int64_t duration) {
    const int window = Windows::window_of(static_cast<Stream>(out_.steps[at].stream));
    if (contended_ && window >= 0 && duration > 0) windows_.launched({at, window, duration});
  }

  void note_waits(const Waits& waits) {
    for (const std::uint32_t wait : waits)
      if (contended_ && wait != kNone)
        windows_.waited(wait, static_cast<Stream>(out_.steps[wait].stream));
  }

  void add_helpers() {
    for (const Windows::Helper& helper : windows_.take()) {
      Waits waits{kNone, kNone};
      const Step about = out_.steps[helper.step];
      if (helper.kind == StepKind::resync) waits[0] = helper.step;
      if (helper.kind == StepKind::window)  // of its waits, those the compute stream knows
        for (std::size_t k = 0; k < 2; ++k)
          if (about.wait_streams[k] == static_cast<std::uint8_t>(Stream::compute))
            waits[k] = about.waits[k];
      const std::uint32_t at = add(helper.kind, Stream::compute, waits, kNone);
      out_.steps[at].duration = helper.duration;
      out_.steps[at].detail = static_cast<std::uint32_t>(helper.window);
      out_.steps[at].issue_delay = about.issue_delay;
      out_.steps[at].waits[2] = about.waits[2];
      out_.steps[at].wait_streams[2] = about.wait_streams[2];
    }
  }

  const Program& program_;
  const Durations& durations_;
  const CompileInputs& inputs_;
  CompiledProgram out_;
  std::uint32_t issuer_ = kNone;  // host step that the next instruction is issued after
  std::int64_t issued_ = 0, launch_ns_ = 0;
  bool contended_ = false;
  Windows windows_;
};

}  // namespace

CompiledProgram compile(const Program& program, const Durations& durations,
                        const CompileInputs& inputs) {
  return Compiler(program, durations, inputs).run();
}

}  // namespace trainyard
