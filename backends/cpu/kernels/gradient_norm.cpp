#include "backends/cpu/kernels/bodies.h"
#include "backends/cpu/kernels/optimizer.h"

namespace trainyard::kernels {

void grad_norm(const Launch& launch) {
  with_storage(launch, DType::fp32, [&](auto type) {
    using C = Compute<decltype(type)>;
    const std::int64_t n = launch.spec.shape[0];
    const C* grad = operand<const C>(launch, 0, 1, n).data;
    const auto norm = operand<C>(launch, 1, 1, 2);
    double squares = 0, overflows = 0;
    for (const FlatTensor& tensor : tensors_of(launch.context, n)) {
      if (!tensor.in_gradient_norm) continue;
      const C* x = grad + tensor.first;
      squares += blocked_sum(launch, tensor.elements, [&](std::int64_t i) {
        const double value = x[i];
        return value * value;
      });
      if (!std::isfinite(squares))  // squares of finite numbers do not overflow in double
        overflows += blocked_sum(launch, tensor.elements,
                                 [&](std::int64_t i) { return std::isfinite(x[i]) ? 0.0 : 1.0; });
    }
    norm.at(0, 0) += static_cast<C>(squares);
    norm.at(0, 1) += static_cast<C>(overflows);
  });
}

// The norm of gradients that carry a loss scale is compared without it. A norm that is no number
// scales nothing: such a step is skipped, or its loss tells.
void grad_clip(const Launch& launch) {
  with_storage(launch, DType::fp32, [&](auto type) {
    using C = Compute<decltype(type)>;
    const std::int64_t n = launch.spec.shape[0];
    C* grad = operand<C>(launch, 0, 1, n).data;
    const double squares = operand<const C>(launch, 1, 1, 2).at(0, 0);
    const double norm = std::sqrt(squares) * launch.context.gradient_scale;
    if (!std::isfinite(norm) || norm <= launch.spec.parameter) return;
    const C factor = static_cast<C>(launch.spec.parameter / norm);
    for_ranges(launch, n, kOptimizerGrain, [&](std::int64_t first, std::int64_t last) {
      Span<C>(grad + first, last - first) *= factor;
    });
  });
}

}  // namespace trainyard::kernels
