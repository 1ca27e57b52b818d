#include <algorithm>

#include "core/error.h"
#include "simulator/timing.h"

namespace trainyard {

KernelTimer::KernelTimer(const GpuProfile& gpu, const Software& software, std::int32_t threads)
    : gpu_(gpu), software_(software) {
  // Of the numbers of threads that were measured, the largest that the rank has.
  const auto& counts = gpu.measured_threads;
  std::size_t column = 0;
  while (column + 1 < counts.size() && counts[column + 1] <= threads) ++column;
  for (const GpuProfile::MeasuredKernel& kernel : gpu.measured_kernels)
    measured_[kernel.name] = {kernel.t0_us.at(column), kernel.flop_ps.at(column),
                              kernel.byte_ps.at(column)};
}

const KernelTimer::Measured* KernelTimer::measured(const KernelSpec& kernel) const {
  if (measured_.empty()) return nullptr;
  auto found = measured_.find(cost_name(kernel));
  if (found == measured_.end()) found = measured_.find(std::string(kernel_info(kernel.kind).name));
  // A profile is of kernels that one rank has; copies stream two operands as sums stream three.
  if (found == measured_.end() && kernel.kind == KernelKind::copy_columns)
    found = measured_.find("add");
  return found == measured_.end() ? nullptr : &found->second;
}

Time KernelTimer::time(const KernelSpec& kernel) const {
  if (const Measured* const m = measured(kernel)) {
    const auto bytes = static_cast<double>((kernel.read + kernel.written).value);
    return microseconds(m->t0_us + (kernel.flops * m->flop_ps + bytes * m->byte_ps) * 1e-6);
  }
  switch (kernel.kind) {
    case KernelKind::gemm_forward:
    case KernelKind::gemm_input_grad:
    case KernelKind::gemm_weight_grad:
      return microseconds(gemm_us(kernel));
    case KernelKind::attention_scores:
    case KernelKind::attention_scores_grad:
    case KernelKind::attention_context:
    case KernelKind::attention_context_grad:
      return microseconds(batched_gemm_us(kernel));
    case KernelKind::attention_forward:
    case KernelKind::attention_backward:
      return microseconds(attention_us(kernel));
    default:
      return microseconds(memory_us(kernel));
  }
}

double KernelTimer::peak_tflops(DType dtype) const {
  // Single precision runs on the tensor cores where they take it (TF32).
  const FlopRate single = gpu_.peak_tf32.value > 0 ? gpu_.peak_tf32 : gpu_.peak_fp32;
  const FlopRate peak = dtype == DType::bf16   ? gpu_.peak_bf16
                        : dtype == DType::fp16 ? gpu_.peak_fp16
                                               : single;
  if (peak.value <= 0)
    throw ConfigError(
        fmt::format("{} does not multiply {} matrices", gpu_.name, dtype_name(dtype)));
  return peak.value * 1e-12;
}

}  // namespace trainyard
