#include "simulator/durations.h"

#include <cmath>

namespace trainyard {
namespace {

std::int64_t scaled(Time time, double factor) {
  return factor == 1 ? time.value : std::llround(static_cast<double>(time.value) * factor);
}

// Charges a measured span to the first instruction that asks, and nothing to the others.
class Charge {
 public:
  explicit Charge(double ms) : ms_(ms) {}
  bool given() const { return ms_ >= 0; }  // false for NaN too
  Time take() {
    const double ms = taken_ ? 0 : ms_;
    taken_ = true;
    return microseconds(ms * 1e3);
  }

 private:
  double ms_;
  bool taken_ = false;
};

// One value for all stages, one per stage (both spread over the stage's chunks), or one per stage
// and chunk; NaN when nothing was measured.
double pick(const std::vector<double>& values, const Job& job, std::int32_t stage,
            std::int32_t chunk) {
  const auto s = static_cast<std::size_t>(stage);
  const auto chunks = static_cast<std::size_t>(job.parallel.virtual_stages);
  if (values.empty()) return std::nan("");
  if (values.size() == static_cast<std::size_t>(job.stages()) * chunks)
    return values[s * chunks + static_cast<std::size_t>(chunk)];
  return values[values.size() == 1 ? 0 : s] / static_cast<double>(chunks);
}

double measured_pass(const Job& job, std::int32_t stage, const Pass& pass) {
  switch (pass.kind) {
    case PassKind::forward:
      return pick(job.measured.forward_ms, job, stage, pass.chunk);
    case PassKind::backward:
      return pick(job.measured.backward_ms, job, stage, pass.chunk);
    case PassKind::weight_grad:
      return pick(job.measured.weight_grad_ms, job, stage, pass.chunk);
    default:
      return std::nan("");
  }
}

double kernel_scale(const CostScale& scale, CostClass cost) {
  switch (cost) {
    case CostClass::gemm:
      return scale.gemm;
    case CostClass::attention:
      return scale.attention;
    case CostClass::memory:
      return scale.memory;
    case CostClass::optimizer:
      return scale.optimizer;
  }
  return 1;
}

class Pricing {
 public:
  Pricing(const Job& job, const Program& program, const Costs& costs, const CostScale& scale)
      : job_(job), program_(program), scale_(scale) {
    const std::int64_t idle = microseconds(job.software.launch_blocking_us * scale.launch).value;
    for (const KernelSpec& kernel : program.kernels)
      kernels_.push_back(
          idle + scaled(costs.kernel(kernel), kernel_scale(scale, kernel_info(kernel.kind).cost)));
    for (const Pass& pass : program.passes)
      passes_.emplace_back(measured_pass(job, program.stage, pass));
  }

  std::int64_t kernel(const Instr& instr) {
    if (instr.pass != kNone && passes_[instr.pass].given()) return passes_[instr.pass].take().value;
    const KernelKind kind = program_.kernels[instr.what].kind;
    if (norm_.given() && (kind == KernelKind::grad_norm || kind == KernelKind::grad_clip))
      return scaled(norm_.take(), scale_.memory);
    if (optimizer_.given() && kernel_info(kind).cost == CostClass::optimizer)
      return scaled(optimizer_.take(), scale_.optimizer);
    return kernels_[instr.what];
  }

  std::int64_t host(const Instr& instr) {
    switch (static_cast<HostWork>(instr.what)) {
      case HostWork::load_batch:
        return scaled(loading_.given() ? loading_.take() : load_time(instr.bytes),
                      scale_.data_loading);
      case HostWork::read_scalar:  // a small copy to the host: about the cost of one launch
        return scaled(microseconds(job_.cluster.gpu.host_launch_us), scale_.host);
      case HostWork::garbage_collection:
        return scaled(microseconds(job_.software.garbage_collection_ms * 1e3), scale_.host);
    }
    return 0;
  }

  std::int64_t copy(Bytes bytes) const {
    const Bandwidth pcie = job_.cluster.node.pcie;
    return pcie.value > 0 ? scaled(transfer_time(bytes, pcie), scale_.data_loading) : 0;
  }

  bool measured(std::uint32_t pass) const { return passes_[pass].given(); }

 private:
  // A sequence is its tokens and the one to predict after the last, 4 bytes each.
  Time load_time(Bytes bytes) const {
    const double sequences = static_cast<double>(bytes.value) /
                             (4.0 * static_cast<double>(job_.batch.sequence_length + 1));
    return microseconds(sequences * job_.cluster.node.load_sequence_us);
  }

  const Job& job_;
  const Program& program_;
  const CostScale& scale_;
  std::vector<std::int64_t> kernels_;
  std::vector<Charge> passes_;
  Charge norm_{job_.measured.gradient_norm_ms}, optimizer_{job_.measured.optimizer_ms},
      loading_{job_.measured.data_loading_ms};
};

}  // namespace

Durations make_durations(const Job& job, const Program& program, const Costs& costs,
                         const CostScale& scale) {
  Pricing pricing(job, program, costs, scale);
  Durations durations;
  durations.of.reserve(program.code.size());
  for (const Instr& instr : program.code) {
    std::int64_t ns = 0;
    if (instr.op == Op::kernel) ns = pricing.kernel(instr);
    if (instr.op == Op::copy) ns = pricing.copy(instr.bytes);
    if (instr.op == Op::host) ns = pricing.host(instr);
    durations.of.push_back(ns);
  }
  for (std::uint32_t pass = 0; pass < program.passes.size(); ++pass)
    durations.free_collectives.push_back(pricing.measured(pass));
  return durations;
}

}  // namespace trainyard
