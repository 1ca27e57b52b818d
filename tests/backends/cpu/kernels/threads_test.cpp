#include "simulator/workers.h"
#include "tests/backends/cpu/kernels/harness.h"

namespace trainyard::testing {
namespace {

using K = KernelKind;

// Several tiles, column blocks and heads; the results agree bit for bit with one thread's.
TEST(ThreadKernels, ResultsDoNotDependOnTheNumberOfThreads) {
  const auto results = [](Workers* workers) {
    const auto run = [workers](const KernelSpec& spec, const std::vector<Buffer*>& operands,
                               const KernelContext& context) {
      run_stored(spec, operands, context, {}, workers);
    };
    KernelContext context;
    context.tokens = context.sequence = 200;
    std::vector<std::vector<double>> all;
    Buffer x = normal("x", 200, 900), w = normal("w", 900, 800), y = zeros(200, 800);
    Buffer dw = zeros(900, 800), dbias = zeros(1, 800);
    run(spec_of(K::gemm_forward, {200, 800, 900}), {&x, &w, &y}, context);
    run(spec_of(K::gemm_weight_grad, {900, 800, 200}, kGemmBias), {&x, &y, &dw, &dbias}, context);
    Buffer qkv = normal("qkv", 200, 12 * 8), out = zeros(200, 8 * 8), lse = zeros(8, 200);
    Buffer dqkv = zeros(200, 12 * 8);
    const std::array<std::int64_t, 6> shape{1, 8, 2, 200, 8, 0};
    run(spec_of(K::attention_forward, shape), {&qkv, &out, &lse}, context);
    run(spec_of(K::attention_backward, shape), {&qkv, &out, &lse, &out, &dqkv}, context);
    Buffer scales = normal("s", 2, 900), normed = zeros(200, 900), stats = zeros(200, 2);
    Buffer dx = zeros(200, 900), dscales = zeros(2, 900), norm = zeros(1, 2);
    run(spec_of(K::norm_forward, {200, 900}), {&x, &scales, &normed, &stats}, context);
    run(spec_of(K::norm_backward, {200, 900}), {&normed, &x, &stats, &scales, &dx, &dscales},
        context);
    run(spec_of(K::grad_norm, {200 * 900}), {&x, &norm}, context);
    for (const Buffer& b : {y, dw, dbias, out, lse, dqkv, normed, dx, dscales, norm})
      all.push_back(b.values);
    return all;
  };
  const auto alone = results(nullptr);
  for (const int threads : {2, 3}) {
    Workers workers(threads);
    EXPECT_EQ(results(&workers), alone);
  }
}

}  // namespace
}  // namespace trainyard::testing
