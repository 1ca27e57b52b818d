#include <algorithm>

#include "core/error.h"
#include "simulator/timing.h"

namespace trainyard {

KernelTimer::KernelTimer(const GpuProfile& gpu, const Software& software)
    : gpu_(gpu), software_(software) {}

Time KernelTimer::time(const KernelSpec& kernel) const {
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
