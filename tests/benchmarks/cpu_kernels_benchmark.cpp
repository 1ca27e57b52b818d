#include <benchmark/benchmark.h>

#include <array>
#include <vector>

#include "backends/cpu/kernels/kernels.h"

// Kernels other than products on one thread.
namespace trainyard {
namespace {

using K = KernelKind;

// A matrix of small numbers in storage of `dtype`.
class Operand {
 public:
  Operand(std::int64_t rows, std::int64_t columns, DType dtype = DType::fp32)
      : memory_(static_cast<std::size_t>(rows * columns * size_of(dtype))),
        matrix_{memory_.data(), rows, columns, columns, dtype} {
    if (dtype != DType::fp32) return;
    auto* values = reinterpret_cast<float*>(memory_.data());
    for (std::int64_t i = 0; i < rows * columns; ++i)
      values[i] = static_cast<float>(i * 7 % 13 - 6) / 8;
  }
  const Matrix& operator*() const { return matrix_; }

 private:
  std::vector<std::byte> memory_;
  Matrix matrix_;
};

KernelSpec spec_of(K kind, std::array<std::int64_t, 6> shape, DType dtype = DType::fp32) {
  KernelSpec spec;
  spec.kind = kind;
  spec.dtype = dtype;
  spec.shape = shape;
  return spec;
}

// 12 heads of 64, one sequence of the given length; FLOPs of the unmasked half.
void attention(benchmark::State& state) {
  const std::int64_t s = state.range(0), heads = 12, dim = 64;
  const bool backward = state.range(1) != 0;
  const Operand qkv(s, 3 * heads * dim), out(s, heads * dim), lse(heads, s), dout(s, heads * dim);
  const Operand dqkv(s, 3 * heads * dim);
  const std::array<std::int64_t, 6> shape{1, heads, heads, s, dim, 0};
  const std::vector<Matrix> forward_operands{*qkv, *out, *lse};
  const std::vector<Matrix> backward_operands{*qkv, *out, *lse, *dout, *dqkv};
  run_kernel(spec_of(K::attention_forward, shape), forward_operands, {});
  for ([[maybe_unused]] auto _ : state)
    run_kernel(spec_of(backward ? K::attention_backward : K::attention_forward, shape),
               backward ? backward_operands : forward_operands, {});
  const double flops = (backward ? 2.5 : 1.0) * 2 * s * s * heads * dim;
  state.counters["gflops"] = benchmark::Counter(
      flops * 1e-9 * static_cast<double>(state.iterations()), benchmark::Counter::kIsRate);
}
BENCHMARK(attention)->ArgsProduct({{256, 1024}, {0, 1}})->Unit(benchmark::kMillisecond);

// A kernel that streams `bytes` a call.
void stream(benchmark::State& state, const KernelSpec& spec, const std::vector<Matrix>& operands,
            std::int64_t bytes, const KernelContext& context = {}) {
  for ([[maybe_unused]] auto _ : state) run_kernel(spec, operands, context);
  state.SetBytesProcessed(state.iterations() * bytes);
}

constexpr std::int64_t kTokens = 1024, kHidden = 768, kFfn = 3072, kVocab = 50304;

void gelu_forward(benchmark::State& state) {
  const Operand x(kTokens, kFfn), y(kTokens, kFfn);
  stream(state, spec_of(K::activation_forward, {kTokens, kFfn}), {*x, *y}, 8 * kTokens * kFfn);
}
BENCHMARK(gelu_forward)->Unit(benchmark::kMicrosecond);

void gelu_backward(benchmark::State& state) {
  const Operand x(kTokens, kFfn), dy(kTokens, kFfn), dx(kTokens, kFfn);
  stream(state, spec_of(K::activation_backward, {kTokens, kFfn}), {*x, *dy, *dx},
         12 * kTokens * kFfn);
}
BENCHMARK(gelu_backward)->Unit(benchmark::kMicrosecond);

void layernorm_forward(benchmark::State& state) {
  const Operand x(kTokens, kHidden), scales(2, kHidden), y(kTokens, kHidden), stats(kTokens, 2);
  stream(state, spec_of(K::norm_forward, {kTokens, kHidden}), {*x, *scales, *y, *stats},
         8 * kTokens * kHidden);
}
BENCHMARK(layernorm_forward)->Unit(benchmark::kMicrosecond);

void layernorm_backward(benchmark::State& state) {
  const Operand x(kTokens, kHidden), scales(2, kHidden), dx(kTokens, kHidden), stats(kTokens, 2);
  const Operand dy(kTokens, kHidden), dscales(2, kHidden);
  stream(state, spec_of(K::norm_backward, {kTokens, kHidden}),
         {*dy, *x, *stats, *scales, *dx, *dscales}, 12 * kTokens * kHidden);
}
BENCHMARK(layernorm_backward)->Unit(benchmark::kMicrosecond);

void residual_with_dropout(benchmark::State& state) {
  const Operand x(kTokens, kHidden), residual(kTokens, kHidden), y(kTokens, kHidden);
  const Operand mask(kTokens, kHidden, DType::uint8);
  KernelSpec spec = spec_of(K::residual_forward, {kTokens, kHidden});
  spec.parameter = state.range(0) / 10.0;
  KernelContext context;
  context.tokens = context.sequence = kTokens;
  std::vector<Matrix> operands{*x, *residual, *y};
  if (state.range(0) > 0) operands.push_back(*mask);
  stream(state, spec, operands, 12 * kTokens * kHidden, context);
}
BENCHMARK(residual_with_dropout)->Arg(0)->Arg(1)->Unit(benchmark::kMicrosecond);

void loss_backward(benchmark::State& state) {
  const std::int64_t rows = 256;
  const Operand logits(rows, kVocab), max(rows, 1), sums(rows, 2), grad(rows, kVocab);
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(rows + 1), 5);
  KernelContext context;
  context.tokens = context.sequence = rows;
  context.vocab = kVocab;
  stream(state, spec_of(K::loss_backward, {rows, kVocab}),
         {*logits, {tokens.data(), 1, rows + 1, rows + 1, DType::int32}, *max, *sums, *grad},
         8 * rows * kVocab, context);
}
BENCHMARK(loss_backward)->Unit(benchmark::kMicrosecond);

void adamw(benchmark::State& state) {
  const std::int64_t n = 1 << 22;
  const Operand grad(1, n), m(1, n), v(1, n), weight(1, n);
  stream(state, spec_of(K::adamw, {n}), {*grad, *m, *v, *weight}, 28 * n);
}
BENCHMARK(adamw)->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace trainyard
