#include "backends/cpu/kernels/bodies.h"
#include "backends/cpu/kernels/optimizer.h"

namespace trainyard::kernels {
namespace {

template <class C>
struct State {
  const C* grad;
  C *m, *v, *weight;
};

// Adam with L2 regularisation (arXiv 1412.6980), or with decoupled decay (AdamW, Loshchilov and
// Hutter, arXiv 1711.05101, algorithm 2).
template <class C>
void update(const Launch& launch, const State<C>& s, const FlatTensor& tensor, bool decoupled) {
  const KernelContext& c = launch.context;
  const Moments<C> moments(c);
  const C rate = static_cast<C>(c.learning_rate);
  const double decay = tensor.decays ? c.weight_decay : 0;
  const C in_gradient = static_cast<C>(decoupled ? 0 : decay);
  const C kept = static_cast<C>(decoupled ? 1 - c.learning_rate * decay : 1);
  for_ranges(launch, tensor.elements, kOptimizerGrain, [&](std::int64_t from, std::int64_t to) {
    for (std::int64_t i = tensor.first + from; i < tensor.first + to; ++i) {
      const C weight = s.weight[i];
      const C gradient = s.grad[i] * moments.scale + in_gradient * weight;
      s.weight[i] = kept * weight - rate * moments.direction(gradient, s.m[i], s.v[i]);
    }
  });
}

void adam_with(const Launch& launch, bool decoupled) {
  with_storage(launch, DType::fp32, [&](auto type) {
    using C = Compute<decltype(type)>;
    const std::int64_t n = launch.spec.shape[0];
    const State<C> state{operand<const C>(launch, 0, 1, n).data, operand<C>(launch, 1, 1, n).data,
                         operand<C>(launch, 2, 1, n).data, operand<C>(launch, 3, 1, n).data};
    if (!launch.context.skip_update)
      for (const FlatTensor& tensor : tensors_of(launch.context, n))
        update(launch, state, tensor, decoupled);
    round_weights<C>(launch, state.weight, 4, n);
  });
}

}  // namespace

void adam(const Launch& launch) { adam_with(launch, false); }
void adamw(const Launch& launch) { adam_with(launch, true); }

}  // namespace trainyard::kernels
