#include <cmath>

#include "tests/backends/cpu/kernels/harness.h"

namespace trainyard::testing {
namespace {

using K = KernelKind;

KernelContext context_of(double rate, double decay) {
  KernelContext c;
  c.learning_rate = rate;
  c.weight_decay = decay;
  c.epsilon = 0;
  return c;
}

// In the first step mhat = g and vhat = g^2, so each weight moves by the rate against its sign.
TEST(Adam, FirstStepMovesEachWeightByTheRate) {
  Buffer grad(1, 3, {4, -0.5, 1}), m = zeros(1, 3), v = m, weight(1, 3, {1, 1, 1});
  run(spec_of(K::adam, {3}), {&grad, &m, &v, &weight}, context_of(0.1, 0));
  EXPECT_NEAR(weight.at(0, 0), 0.9, 1e-15);
  EXPECT_NEAR(weight.at(0, 1), 1.1, 1e-15);
  EXPECT_NEAR(m.at(0, 0), 0.4, 1e-15);    // (1 - 0.9) g
  EXPECT_NEAR(v.at(0, 0), 0.016, 1e-15);  // (1 - 0.999) g^2
}

// Weight 2, gradient 1, rate 0.1, decay 0.5. L2 adds 1 to the gradient, which keeps its sign: 1.9.
// Decoupled decay shrinks the weight by 0.1 * 0.5 first: 1.9 - 0.1 = 1.8.
TEST(Adam, DecayIsPartOfTheGradientOrDecoupled) {
  Buffer grad(1, 1, {1}), m = zeros(1, 1), v = m, weight(1, 1, {2});
  run(spec_of(K::adam, {1}), {&grad, &m, &v, &weight}, context_of(0.1, 0.5));
  EXPECT_NEAR(weight.at(0, 0), 1.9, 1e-15);
  EXPECT_NEAR(m.at(0, 0), 0.2, 1e-15);
  Buffer m2 = zeros(1, 1), v2 = m2, weight2(1, 1, {2});
  run(spec_of(K::adamw, {1}), {&grad, &m2, &v2, &weight2}, context_of(0.1, 0.5));
  EXPECT_NEAR(weight2.at(0, 0), 1.8, 1e-15);
  EXPECT_NEAR(m2.at(0, 0), 0.1, 1e-15);
}

TEST(Adam, TensorsThatDoNotDecayKeepTheirWeight) {
  const FlatTensor tensors[] = {{.first = 0, .elements = 1},
                                {.first = 1, .elements = 1, .decays = false}};
  KernelContext context = context_of(0.1, 0.5);
  context.tensors = tensors;
  Buffer grad(1, 3, {1, 1, 0}), m = zeros(1, 3), v = m, weight(1, 3, {2, 2, 0});
  run(spec_of(K::adamw, {3}), {&grad, &m, &v, &weight}, context);
  EXPECT_NEAR(weight.at(0, 0), 1.8, 1e-15);
  EXPECT_NEAR(weight.at(0, 1), 1.9, 1e-15);
  EXPECT_EQ(weight.at(0, 2), 0);  // padding behind the tensors
}

TEST(Adam, ParametersAreTheRoundedMasterWeights) {
  for (const DType dtype : {DType::bf16, DType::fp16}) {
    Buffer grad = normal("g", 1, 37), m = zeros(1, 37), v = m, weight = normal("w", 1, 37);
    Buffer param = zeros(1, 37);
    KernelSpec spec = spec_of(K::adamw, {37});
    spec.dtype = dtype;  // only tells the test how to store what is not wide
    run_stored(spec, {&grad, &m, &v, &weight, &param}, context_of(0.01, 0.1), {0, 1, 2, 3});
    for (std::int64_t i = 0; i < 37; ++i)
      EXPECT_EQ(param.at(0, i), rounded(weight.at(0, i), dtype));
  }
}

TEST(Adam, LossScaleDropsOut) {
  Buffer grad = normal("g", 1, 9), m = zeros(1, 9), v = m, weight = normal("w", 1, 9);
  Buffer scaled = grad, m2 = m, v2 = v, weight2 = weight;
  for (double& g : scaled.values) g *= 1024;
  KernelContext context = context_of(0.1, 0.1);
  run(spec_of(K::adam, {9}), {&grad, &m, &v, &weight}, context);
  context.gradient_scale = 1.0 / 1024;
  run(spec_of(K::adam, {9}), {&scaled, &m2, &v2, &weight2}, context);
  EXPECT_EQ(weight.values, weight2.values);
  EXPECT_EQ(v.values, v2.values);
}

TEST(Adam, SkippedUpdatesChangeNothingButFillTheParameters) {
  Buffer grad(1, 1, {INFINITY}), m(1, 1, {1}), v(1, 1, {2}), weight(1, 1, {3}), param = zeros(1, 1);
  KernelContext context = context_of(0.1, 0.5);
  context.skip_update = true;
  run(spec_of(K::adamw, {1}), {&grad, &m, &v, &weight, &param}, context);
  EXPECT_EQ(m.at(0, 0), 1);
  EXPECT_EQ(v.at(0, 0), 2);
  EXPECT_EQ(weight.at(0, 0), 3);
  EXPECT_EQ(param.at(0, 0), 3);
}

// First tensor: weights 3 and 4, directions (first step) 1 and 1, so norms 5 and sqrt 2 and a
// trust ratio of 5 / sqrt 2. Second: no decay, so ratio 1. Third: zero weights, so ratio 1.
TEST(Lamb, TrustRatioIsATensorsOwn) {
  const FlatTensor tensors[] = {{.first = 0, .elements = 2},
                                {.first = 2, .elements = 1, .decays = false},
                                {.first = 3, .elements = 1}};
  KernelContext context = context_of(0.1, 0);
  context.tensors = tensors;
  Buffer grad(1, 4, {2, 7, 1, 1}), m = zeros(1, 4), v = m, weight(1, 4, {3, 4, 5, 0});
  Buffer direction = m, norms = zeros(3, 2);
  run(spec_of(K::lamb_update, {4}), {&grad, &m, &v, &weight, &direction, &norms}, context);
  EXPECT_NEAR(norms.at(0, 0), 25, 1e-14);
  EXPECT_NEAR(norms.at(0, 1), 2, 1e-14);
  run(spec_of(K::lamb_apply, {4}), {&direction, &norms, &weight}, context);
  const double step = 0.1 * 5 / std::sqrt(2.0);
  EXPECT_NEAR(weight.at(0, 0), 3 - step, 1e-14);
  EXPECT_NEAR(weight.at(0, 1), 4 - step, 1e-14);
  EXPECT_NEAR(weight.at(0, 2), 5 - 0.1, 1e-14);
  EXPECT_NEAR(weight.at(0, 3), 0 - 0.1, 1e-14);
}

// Two ranks hold halves of a tensor, and a copy each of a replicated one that rank 0 counts: the
// summed norms are those of one rank.
TEST(Lamb, NormsOfShardsAddUpToTheWhole) {
  const FlatTensor whole[] = {{.first = 0, .elements = 3}, {.first = 3, .elements = 4}};
  KernelContext context = context_of(0.1, 0.3);
  context.tensors = whole;
  Buffer grad = normal("g", 1, 7), m = zeros(1, 7), v = m, weight = normal("w", 1, 7);
  Buffer direction = m, norms = zeros(2, 2), sum = zeros(2, 2);
  run(spec_of(K::lamb_update, {7}), {&grad, &m, &v, &weight, &direction, &norms}, context);
  for (std::int64_t rank = 0; rank < 2; ++rank) {
    const FlatTensor part[] = {{.first = 0, .elements = 3, .in_own_norm = rank == 0},
                               {.first = 3, .elements = 2}};
    context.tensors = part;
    const auto mine = [&](const Buffer& all) {
      Buffer b = zeros(1, 5);
      for (std::int64_t i = 0; i < 5; ++i) b.at(0, i) = all.at(0, i < 3 ? i : i + 2 * rank);
      return b;
    };
    Buffer g = mine(grad), m1 = zeros(1, 5), v1 = m1, w = mine(weight), d = m1;
    Buffer n = normal("norms", 2, 2);
    run(spec_of(K::lamb_update, {5}), {&g, &m1, &v1, &w, &d, &n}, context);
    for (std::size_t i = 0; i < 4; ++i) sum.values[i] += n.values[i];
  }
  EXPECT_LT(difference(sum, norms), 1e-14);
}

TEST(Lamb, SkippedUpdatesChangeNothing) {
  KernelContext context = context_of(0.1, 0.5);
  context.skip_update = true;
  Buffer grad(1, 1, {NAN}), m(1, 1, {1}), v(1, 1, {2}), weight(1, 1, {3}), param = zeros(1, 1);
  Buffer direction(1, 1, {9}), norms(1, 2, {9, 9});
  run(spec_of(K::lamb_update, {1}), {&grad, &m, &v, &weight, &direction, &norms}, context);
  run(spec_of(K::lamb_apply, {1}), {&direction, &norms, &weight, &param}, context);
  EXPECT_EQ(m.at(0, 0), 1);
  EXPECT_EQ(v.at(0, 0), 2);
  EXPECT_EQ(weight.at(0, 0), 3);
  EXPECT_EQ(param.at(0, 0), 3);
  EXPECT_EQ(direction.at(0, 0), 0);
}

TEST(GradientNorm, AddsSquaresOfWhatThisRankCounts) {
  Buffer grad(1, 4, {3, 4, 12, 100}), norm(1, 2, {1, 0});
  run(spec_of(K::grad_norm, {4}), {&grad, &norm});
  EXPECT_EQ(norm.values, (std::vector<double>{1 + 9 + 16 + 144 + 10000, 0}));
  const FlatTensor tensors[] = {{.first = 0, .elements = 2},
                                {.first = 2, .elements = 1, .in_gradient_norm = false}};
  KernelContext context;
  context.tensors = tensors;
  Buffer partly = zeros(1, 2);
  run(spec_of(K::grad_norm, {4}), {&grad, &partly}, context);
  EXPECT_EQ(partly.at(0, 0), 25);
}

// A tied table of 800 ones, held by the first and the last stage: sqrt(800) = 28.284, where
// counting both copies gives 40 (Megatron-LM issues 7227 and 7228).
TEST(GradientNorm, TiedTablesCountOnce) {
  Buffer grad(1, 800, std::vector<double>(800, 1.0)), norm = zeros(1, 2);
  for (const bool first_stage : {true, false}) {
    const FlatTensor table[] = {{.first = 0, .elements = 800, .in_gradient_norm = first_stage}};
    KernelContext context;
    context.tensors = table;
    run(spec_of(K::grad_norm, {800}), {&grad, &norm}, context);
  }
  EXPECT_NEAR(std::sqrt(norm.at(0, 0)), 28.284, 5e-4);
}

TEST(GradientNorm, OverflowsAreCounted) {
  Buffer grad(1, 3, {INFINITY, NAN, 1}), norm = zeros(1, 2);
  run(spec_of(K::grad_norm, {3}), {&grad, &norm});
  EXPECT_EQ(norm.at(0, 1), 2);
}

TEST(GradientNorm, ClippingScalesToTheLargestNorm) {
  Buffer grad(1, 2, {3, 4}), norm(1, 2, {25, 0});
  run(spec_of(K::grad_clip, {2}, 0, 10), {&grad, &norm});
  EXPECT_EQ(grad.values, (std::vector<double>{3, 4}));
  run(spec_of(K::grad_clip, {2}, 0, 1), {&grad, &norm});
  EXPECT_NEAR(grad.at(0, 0), 0.6, 1e-15);
  EXPECT_NEAR(grad.at(0, 1), 0.8, 1e-15);
  // Gradients of scale 8 have norm 5 / 8 without it.
  KernelContext context;
  context.gradient_scale = 0.125;
  Buffer scaled(1, 2, {3, 4});
  run(spec_of(K::grad_clip, {2}, 0, 0.7), {&scaled, &norm}, context);
  EXPECT_EQ(scaled.values, (std::vector<double>{3, 4}));
  run(spec_of(K::grad_clip, {2}, 0, 0.125), {&scaled, &norm}, context);
  EXPECT_NEAR(scaled.at(0, 0), 0.6, 1e-15);
  Buffer nothing = zeros(1, 2), none = zeros(1, 2);
  run(spec_of(K::grad_clip, {2}, 0, 1), {&nothing, &none});
  EXPECT_EQ(nothing.at(0, 0), 0);
}

// More than 2^24 values of 1 sum to their number, where a running fp32 sum would stop at 2^24.
TEST(GradientNorm, ManySmallSquaresAreNotLost) {
  constexpr std::int64_t kCount = (1 << 24) + (1 << 20);
  std::vector<float> grad(kCount, 1.0F), norm(2, 0.0F);
  const Matrix operands[] = {{grad.data(), 1, kCount, kCount, DType::fp32},
                             {norm.data(), 1, 2, 2, DType::fp32}};
  run_kernel(spec_of(K::grad_norm, {kCount}), operands, {});
  EXPECT_EQ(norm[0], static_cast<float>(kCount));
}

}  // namespace
}  // namespace trainyard::testing
