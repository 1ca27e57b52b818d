#include <benchmark/benchmark.h>

#include <Eigen/Dense>
#include <algorithm>
#include <chrono>
#include <ctime>
#include <functional>
#include <thread>
#include <vector>

#include "backends/cpu/kernels/kernels.h"
#include "tests/benchmarks/blas.h"

// The three products of GPT-2 124M's layers with 1024 tokens, and of its output projection, each in
// turns with Eigen's product and OpenBLAS's of the same shape and storage order on as many threads.
// Counters: `of_eigen` and `of_openblas` are ratios of the best times, so that load on the machine
// meets all of them; `gflops` is ours.
namespace trainyard {
namespace {

using K = KernelKind;
using RowMajor = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

Matrix operand(RowMajor& m) { return {m.data(), m.rows(), m.cols(), m.cols(), DType::fp32}; }

// On one thread the process's own time, which others on the machine do not stretch.
double now(int threads) {
  if (threads == 1) return static_cast<double>(std::clock()) / CLOCKS_PER_SEC;
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// y = a b or y += a b, of factors stored as they are or transposed.
struct Product {
  K kind;
  bool transposed_weight = false;  // stored [out, in], as the output projection's is
  bool left = false, right = false, adds = false;
  std::int64_t m, n, k;
};

// `kind` of a layer with `in` inputs and `out` outputs.
Product product_of(K kind, std::int64_t in, std::int64_t out, bool transposed) {
  constexpr std::int64_t kTokens = 1024;
  if (kind == K::gemm_forward)
    return {kind, transposed, false, transposed, false, kTokens, out, in};
  if (kind == K::gemm_input_grad)
    return {kind, transposed, false, !transposed, false, kTokens, in, out};
  if (transposed) return {kind, true, true, false, true, out, in, kTokens};
  return {kind, false, true, false, true, in, out, kTokens};
}

void eigen_product(const Product& p, const RowMajor& a, const RowMajor& b, RowMajor& c) {
  if (p.left)
    c.noalias() += a.transpose() * b;
  else if (p.right)
    c.noalias() = a * b.transpose();
  else
    c.noalias() = a * b;
}

// Our kernel's operands: the weight's gradient has the layer's input first, whichever it stores.
void our_product(const Product& p, RowMajor& a, RowMajor& b, RowMajor& c, Workers* workers) {
  KernelSpec spec;
  spec.kind = p.kind;
  spec.dtype = DType::fp32;
  spec.flag = p.transposed_weight ? kGemmTransposed : 0;
  const bool swaps = p.left && p.transposed_weight;
  spec.shape = {swaps ? p.n : p.m, swaps ? p.m : p.n, p.k};
  const std::array<Matrix, 3> operands{operand(swaps ? b : a), operand(swaps ? a : b), operand(c)};
  run_kernel(spec, operands, {}, workers);
}

void gemm(benchmark::State& state, K kind) {
  const Product p = product_of(kind, state.range(0), state.range(1), state.range(2) != 0);
  const int threads = static_cast<int>(state.range(3));
  RowMajor a = p.left ? RowMajor::Random(p.k, p.m) : RowMajor::Random(p.m, p.k);
  RowMajor b = p.right ? RowMajor::Random(p.n, p.k) : RowMajor::Random(p.k, p.n);
  RowMajor c = RowMajor::Zero(p.m, p.n);
  Workers workers(threads);
  Eigen::setNbThreads(threads);
  const std::array<std::function<void()>, 3> ways{
      [&] { our_product(p, a, b, c, &workers); }, [&] { eigen_product(p, a, b, c); },
      [&] {
        blas_product({p.left, p.right, p.adds, p.m, p.n, p.k}, a.data(), b.data(), c.data(),
                     threads);
      }};
  std::array<double, 3> best;
  best.fill(1e9);
  for ([[maybe_unused]] auto _ : state)
    for (std::size_t way = 0; way < ways.size(); ++way) {
      if (threads > 1) {  // the threads of the one before may look for work for some time yet
        std::this_thread::sleep_for(std::chrono::milliseconds(200));
        ways[way]();
      }
      const double start = now(threads);
      ways[way]();
      best[way] = std::min(best[way], now(threads) - start);
    }
  state.counters["gflops"] = 2e-9 * static_cast<double>(p.m * p.n * p.k) / best[0];
  state.counters["of_eigen"] = best[1] / best[0];
  if (has_blas()) state.counters["of_openblas"] = best[2] / best[0];
}

// Arguments: inputs and outputs of the layer, whether its weight is stored [out, in], threads.
void layers(benchmark::internal::Benchmark* b) {
  for (const std::int64_t threads : {1, 2})
    for (const auto& [in, out, transposed] : {std::array<std::int64_t, 3>{768, 2304, 0},
                                              {768, 768, 0},
                                              {768, 3072, 0},
                                              {3072, 768, 0},
                                              {768, 50304, 1}})
      b->Args({in, out, transposed, threads});
  b->ArgNames({"in", "out", "transposed", "threads"})->Iterations(7)->Unit(benchmark::kMillisecond);
}
BENCHMARK_CAPTURE(gemm, forward, K::gemm_forward)->Apply(layers);
BENCHMARK_CAPTURE(gemm, input_grad, K::gemm_input_grad)->Apply(layers);
BENCHMARK_CAPTURE(gemm, weight_grad, K::gemm_weight_grad)->Apply(layers);

}  // namespace
}  // namespace trainyard
