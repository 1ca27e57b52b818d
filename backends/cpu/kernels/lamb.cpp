#include "backends/cpu/kernels/bodies.h"
#include "backends/cpu/kernels/optimizer.h"

namespace trainyard::kernels {

// LAMB (You et al., arXiv 1904.00962, algorithm 2): direction = mhat / (sqrt(vhat) + eps) + decay *
// weight, then weight -= rate * |weight| / |direction| * direction, norms a tensor.
void lamb_update(const Launch& launch) {
  with_storage(launch, DType::fp32, [&](auto type) {
    using C = Compute<decltype(type)>;
    const std::int64_t n = launch.spec.shape[0];
    const KernelContext& c = launch.context;
    const C* grad = operand<const C>(launch, 0, 1, n).data;
    C* m = operand<C>(launch, 1, 1, n).data;
    C* v = operand<C>(launch, 2, 1, n).data;
    const C* weight = operand<const C>(launch, 3, 1, n).data;
    C* direction = operand<C>(launch, 4, 1, n).data;
    const auto tensors = tensors_of(c, n);
    const auto norms = operand<C>(launch, 5, static_cast<std::int64_t>(tensors.size()), 2);
    Span<C>(norms.data, norms.rows * 2).setZero();
    if (c.skip_update) {
      Span<C>(direction, n).setZero();
      return;
    }
    const Moments<C> moments(c);
    for (std::size_t t = 0; t < tensors.size(); ++t) {
      const FlatTensor& tensor = tensors[t];
      const C decay = static_cast<C>(tensor.decays ? c.weight_decay : 0);
      for_ranges(launch, tensor.elements, kOptimizerGrain, [&](std::int64_t from, std::int64_t to) {
        for (std::int64_t i = tensor.first + from; i < tensor.first + to; ++i)
          direction[i] = moments.direction(grad[i] * moments.scale, m[i], v[i]) + decay * weight[i];
      });
      if (!tensor.in_own_norm) continue;
      const auto squares = [&](const C* x) {
        return static_cast<C>(blocked_sum(launch, tensor.elements, [&](std::int64_t i) {
          const double value = x[tensor.first + i];
          return value * value;
        }));
      };
      norms.at(static_cast<std::int64_t>(t), 0) = squares(weight);
      norms.at(static_cast<std::int64_t>(t), 1) = squares(direction);
    }
  });
}

void lamb_apply(const Launch& launch) {
  with_storage(launch, DType::fp32, [&](auto type) {
    using C = Compute<decltype(type)>;
    const std::int64_t n = launch.spec.shape[0];
    const KernelContext& c = launch.context;
    const C* direction = operand<const C>(launch, 0, 1, n).data;
    const auto tensors = tensors_of(c, n);
    const auto norms = operand<const C>(launch, 1, static_cast<std::int64_t>(tensors.size()), 2);
    C* weight = operand<C>(launch, 2, 1, n).data;
    for (std::size_t t = 0; !c.skip_update && t < tensors.size(); ++t) {
      const FlatTensor& tensor = tensors[t];
      const double of_weight = norms.at(static_cast<std::int64_t>(t), 0);
      const double of_direction = norms.at(static_cast<std::int64_t>(t), 1);
      const bool trusted = tensor.decays && of_weight > 0 && of_direction > 0;
      const double ratio = trusted ? std::sqrt(of_weight / of_direction) : 1;
      const C rate = static_cast<C>(c.learning_rate * ratio);
      for_ranges(launch, tensor.elements, kOptimizerGrain, [&](std::int64_t from, std::int64_t to) {
        for (std::int64_t i = tensor.first + from; i < tensor.first + to; ++i)
          weight[i] -= rate * direction[i];
      });
    }
    round_weights<C>(launch, weight, 3, n);
  });
}

}  // namespace trainyard::kernels
