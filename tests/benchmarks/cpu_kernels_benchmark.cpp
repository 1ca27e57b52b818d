#include <benchmark/benchmark.h>

#include <Eigen/Dense>
#include <algorithm>
#include <chrono>
#include <functional>
#include <vector>

#include "backends/cpu/kernels/kernels.h"

// Kernels on one thread. Products are timed in turns with Eigen's own product on plain matrices of
// the same sizes: the counter "of_eigen" is the ratio of the two best times, so load on the machine
// meets both.
namespace trainyard {
namespace {

using K = KernelKind;
using RowMajor = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

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

template <class F>
double seconds(F f) {
  const auto start = std::chrono::steady_clock::now();
  f();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// Arguments m, n, k; products of GPT-2 small with 1024 tokens, and a square one.
void sizes(benchmark::internal::Benchmark* b) {
  for (const auto& size : {std::vector<std::int64_t>{1024, 2304, 768},
                           {1024, 768, 768},
                           {1024, 3072, 768},
                           {1024, 768, 3072},
                           {1024, 1024, 1024}})
    b->Args(size);
  b->Unit(benchmark::kMillisecond);
}

void compare(benchmark::State& state, const KernelSpec& spec, std::vector<Matrix> operands,
             const std::function<void()>& plain) {
  double ours = 1e9, eigen = 1e9;
  for ([[maybe_unused]] auto _ : state) {
    ours = std::min(ours, seconds([&] { run_kernel(spec, operands, {}); }));
    eigen = std::min(eigen, seconds(plain));
  }
  const double flops = 2.0 * state.range(0) * state.range(1) * state.range(2);
  state.counters["of_eigen"] = eigen / ours;
  state.counters["gflops"] = flops / ours * 1e-9;
}

void gemm_forward(benchmark::State& state) {
  const std::int64_t m = state.range(0), n = state.range(1), k = state.range(2);
  const Operand x(m, k), w(k, n), y(m, n);
  const RowMajor a = RowMajor::Random(m, k), b = RowMajor::Random(k, n);
  RowMajor c(m, n);
  compare(state, spec_of(K::gemm_forward, {m, n, k}), {*x, *w, *y}, [&] { c.noalias() = a * b; });
}
BENCHMARK(gemm_forward)->Apply(sizes);

void gemm_forward_bf16(benchmark::State& state) {
  const std::int64_t m = state.range(0), n = state.range(1), k = state.range(2);
  const Operand x(m, k, DType::bf16), w(k, n, DType::bf16), y(m, n, DType::bf16);
  const RowMajor a = RowMajor::Random(m, k), b = RowMajor::Random(k, n);
  RowMajor c(m, n);
  compare(state, spec_of(K::gemm_forward, {m, n, k}, DType::bf16), {*x, *w, *y},
          [&] { c.noalias() = a * b; });
}
BENCHMARK(gemm_forward_bf16)->Apply(sizes);

void gemm_input_grad(benchmark::State& state) {
  const std::int64_t m = state.range(0), n = state.range(1), k = state.range(2);
  const Operand dy(m, k), w(n, k), dx(m, n);
  const RowMajor a = RowMajor::Random(m, k), b = RowMajor::Random(n, k);
  RowMajor c(m, n);
  compare(state, spec_of(K::gemm_input_grad, {m, n, k}), {*dy, *w, *dx},
          [&] { c.noalias() = a * b.transpose(); });
}
BENCHMARK(gemm_input_grad)->Apply(sizes);

// dW[n, k] += X[m, n]^T dY[m, k] for the tokens m.
void gemm_weight_grad(benchmark::State& state) {
  const std::int64_t m = state.range(0), n = state.range(1), k = state.range(2);
  const Operand x(m, n), dy(m, k), dw(n, k);
  const RowMajor a = RowMajor::Random(m, n), b = RowMajor::Random(m, k);
  RowMajor c = RowMajor::Zero(n, k);
  compare(state, spec_of(K::gemm_weight_grad, {n, k, m}), {*x, *dy, *dw},
          [&] { c.noalias() += a.transpose() * b; });
}
BENCHMARK(gemm_weight_grad)->Apply(sizes);

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
