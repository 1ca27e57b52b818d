#include "simulator/timing.h"

namespace trainyard {
namespace {

// Fraction of the HBM bandwidth a kernel reaches.
double bandwidth_fraction(KernelKind kind, const GpuProfile::Memory& memory,
                          const Software& software) {
  switch (kind) {
    case KernelKind::norm_forward:
      return software.fused_norm ? memory.norm_forward : memory.norm_forward_unfused;
    case KernelKind::norm_backward:
      return software.fused_norm ? memory.norm_backward : memory.norm_backward_unfused;
    case KernelKind::softmax_forward:
    case KernelKind::softmax_backward:
      return memory.softmax;
    case KernelKind::rope_forward:
    case KernelKind::rope_backward:
      return memory.rope;
    case KernelKind::embedding_forward:
    case KernelKind::embedding_backward:
      return memory.embedding;
    case KernelKind::adam:
    case KernelKind::adamw:
    case KernelKind::lamb_update:
    case KernelKind::lamb_apply:
      return memory.optimizer;
    case KernelKind::grad_norm:
      return memory.reduction;
    case KernelKind::loss_max:
    case KernelKind::loss_sum:
    case KernelKind::loss_backward:
      return 1;  // their bytes are measured time at full bandwidth
    default:
      return memory.elementwise;
  }
}

// Bytes moved: what the kernel must, times what an unfused chain of kernels moves more.
double traffic(const KernelSpec& kernel, const GpuProfile::Memory& memory,
               const Software& software) {
  const double least = static_cast<double>(kernel.read.value + kernel.written.value);
  const double elements =
      static_cast<double>(kernel.shape[0]) * static_cast<double>(kernel.shape[1]);
  switch (kernel.kind) {
    case KernelKind::residual_forward:
    case KernelKind::residual_backward:
      return software.fused_residual ? least : least * memory.unfused_residual;
    case KernelKind::activation_forward:
    case KernelKind::activation_backward:
      return software.fused_activation ? least : least * memory.unfused_activation;
    case KernelKind::loss_max:
      return elements * memory.loss_max_bytes;
    case KernelKind::loss_sum:
      return elements * memory.loss_sum_bytes;
    case KernelKind::loss_backward:
      return elements * memory.loss_backward_bytes;
    default:
      return least;
  }
}

}  // namespace

double KernelTimer::memory_us(const KernelSpec& kernel) const {
  const GpuProfile::Memory& memory = gpu_.memory_bound;
  const double bytes_per_us =
      gpu_.memory_bandwidth.value * 1e-6 * bandwidth_fraction(kernel.kind, memory, software_);
  return memory.t0_us + traffic(kernel, memory, software_) / bytes_per_us;
}

}  // namespace trainyard
