#include <cmath>

#include "core/model/model.h"
#include "tests/backends/cpu/kernels/harness.h"

namespace trainyard::testing {
namespace {

using K = KernelKind;

constexpr std::uint8_t kLayerNorm = static_cast<std::uint8_t>(Norm::layernorm);
constexpr std::uint8_t kRmsNorm = static_cast<std::uint8_t>(Norm::rmsnorm);
constexpr std::uint8_t kGelu = static_cast<std::uint8_t>(Activation::gelu);
constexpr std::uint8_t kSwiglu = static_cast<std::uint8_t>(Activation::swiglu);

struct RowSize {
  std::int64_t rows, columns;
};
constexpr RowSize kRowSizes[] = {{1, 1}, {1, 17}, {13, 1}, {7, 31}, {3, 300}};

// Row 1 3: mean 2, deviation 1, so -1 and 1, scaled by 2 and 3, shifted by 10 and 20. RMS of 3 4 is
// sqrt(12.5).
TEST(Norm, RowsByHand) {
  KernelContext context;
  context.norm_epsilon = 0;
  Buffer x(1, 2, {1, 3}), scales(2, 2, {2, 3, 10, 20}), y = zeros(1, 2), stats = zeros(1, 2);
  run(spec_of(K::norm_forward, {1, 2}, kLayerNorm), {&x, &scales, &y, &stats}, context);
  EXPECT_EQ(y.values, (std::vector<double>{8, 23}));
  EXPECT_EQ(stats.values, (std::vector<double>{2, 1}));
  Buffer x2(1, 2, {3, 4}), gamma(1, 2, {1, 2});
  run(spec_of(K::norm_forward, {1, 2}, kRmsNorm), {&x2, &gamma, &y, &stats}, context);
  EXPECT_NEAR(y.at(0, 0), 3 / std::sqrt(12.5), 1e-15);
  EXPECT_NEAR(y.at(0, 1), 8 / std::sqrt(12.5), 1e-15);
  EXPECT_EQ(stats.at(0, 0), 0);
}

TEST(Norm, BackwardIsTheDerivativeOfForward) {
  for (const auto& [rows, n] : kRowSizes) {
    for (const std::uint8_t kind : {kLayerNorm, kRmsNorm}) {
      Buffer x = normal("x", rows, n, 2), scales = normal("s", kind == kLayerNorm ? 2 : 1, n);
      Buffer dy = normal("dy", rows, n, 1), residual = normal("r", rows, n, 3);
      const auto forward = [&, rows = rows, n = n] {
        Buffer y = zeros(rows, n), stats = zeros(rows, 2);
        run(spec_of(K::norm_forward, {rows, n}, kind), {&x, &scales, &y, &stats});
        return std::pair{y, stats};
      };
      const auto loss = [&] { return dot(forward().first, dy) + dot(x, residual); };
      Buffer stats = forward().second, dx = zeros(rows, n, 1);
      Buffer dscales = zeros(scales.rows, n);
      run(spec_of(K::norm_backward, {rows, n}, kind),
          {&dy, &x, &stats, &scales, &dx, &dscales, &residual});
      expect_gradient(loss, x, dx);
      for (double& v : residual.values) v = 0;
      expect_gradient(loss, scales, dscales);
      Buffer alone = zeros(rows, n), twice = dscales;
      run(spec_of(K::norm_backward, {rows, n}, kind), {&dy, &x, &stats, &scales, &alone, &twice});
      expect_gradient(loss, x, alone);
      EXPECT_NEAR(twice.at(0, 0), 2 * dscales.at(0, 0), 1e-12);  // gradients accumulate
    }
  }
}

// tanh form: GELU(1) = 0.5 (1 + tanh(0.7978845608 * 1.044715)) = 0.8411919906. SiLU(1) = 1 / (1 +
// e^-1) = 0.7310585786, times the value 3.
TEST(Activation, ValuesByHand) {
  Buffer x(1, 2, {1, 0}), bias(1, 2, {0, 1}), y = zeros(1, 2), gated = zeros(1, 1);
  run(spec_of(K::activation_forward, {1, 2}, kGelu), {&x, &y});
  EXPECT_NEAR(y.at(0, 0), 0.8411919906, 1e-10);
  EXPECT_EQ(y.at(0, 1), 0);
  run(spec_of(K::activation_forward, {1, 2}, kGelu), {&x, &y, &bias});
  EXPECT_NEAR(y.at(0, 1), 0.8411919906, 1e-10);
  Buffer pair(1, 2, {1, 3});
  run(spec_of(K::activation_forward, {1, 1}, kSwiglu), {&pair, &gated});
  EXPECT_NEAR(gated.at(0, 0), 3 * 0.7310585786, 1e-9);
}

TEST(Activation, BackwardIsTheDerivativeOfForward) {
  for (const auto& [rows, n] : kRowSizes) {
    for (const std::uint8_t kind : {kGelu, kSwiglu}) {
      const std::int64_t inputs = kind == kSwiglu ? 2 * n : n;
      Buffer x = normal("x", rows, inputs, 2), dy = normal("dy", rows, n, 1);
      Buffer bias = normal("bias", 1, inputs);
      const auto loss = [&, rows = rows, n = n] {
        Buffer y = zeros(rows, n);
        run(spec_of(K::activation_forward, {rows, n}, kind), {&x, &y, &bias});
        return dot(y, dy);
      };
      Buffer dx = zeros(rows, inputs, 1), dbias = zeros(1, inputs);
      run(spec_of(K::activation_backward, {rows, n}, kind), {&x, &dy, &dx, &bias, &dbias});
      expect_gradient(loss, x, dx);
      expect_gradient(loss, bias, dbias);
    }
  }
}

TEST(Rope, RotatesPairsHalfAHeadApart) {
  // Place 1, head of 4, base 100: angles 1 and 1 * 100^(-2/4) = 0.1; the value head stays.
  Buffer qkv = zeros(2, 12);
  for (std::int64_t j = 0; j < 12; ++j) qkv.at(0, j) = qkv.at(1, j) = j + 1.0;
  const Buffer before = qkv;
  run(spec_of(K::rope_forward, {2, 1, 1, 4, 2}, 0, 100), {&qkv});
  for (std::int64_t j = 0; j < 12; ++j) EXPECT_EQ(qkv.at(0, j), before.at(0, j));
  EXPECT_NEAR(qkv.at(1, 0), 1 * std::cos(1.0) - 3 * std::sin(1.0), 1e-14);
  EXPECT_NEAR(qkv.at(1, 2), 3 * std::cos(1.0) + 1 * std::sin(1.0), 1e-14);
  EXPECT_NEAR(qkv.at(1, 5), 6 * std::cos(0.1) - 8 * std::sin(0.1), 1e-14);
  for (std::int64_t j = 8; j < 12; ++j) EXPECT_EQ(qkv.at(1, j), before.at(1, j));
}

TEST(Rope, BackwardIsTheTransposeOfForward) {
  const KernelSpec spec = spec_of(K::rope_forward, {10, 3, 1, 6, 5}, 0, 10000);
  Buffer x = normal("x", 10, 30, 2);
  const Buffer dy = normal("dy", 10, 30, 1);
  const auto loss = [&] {
    Buffer y = x;
    run(spec, {&y});
    return dot(y, dy);
  };
  Buffer dx = dy;
  KernelSpec back = spec;
  back.kind = K::rope_backward;
  run(back, {&dx});
  expect_gradient(loss, x, dx);
}

TEST(Add, AddsAnotherBufferOrThePositionOfARow) {
  Buffer a(2, 2, {1, 2, 3, 4}), b(2, 2, {10, 20, 30, 40});
  run(spec_of(K::add, {2, 2}), {&a, &b});
  EXPECT_EQ(a.values, (std::vector<double>{11, 22, 33, 44}));
  KernelContext context;
  context.tokens = 4;
  context.sequence = 2;
  Buffer x = zeros(4, 2);
  run(spec_of(K::add, {4, 2}, 1), {&x, &b}, context);
  EXPECT_EQ(x.values, (std::vector<double>{10, 20, 30, 40, 10, 20, 30, 40}));
}

TEST(Add, FlatShardsMayBeRowsOrColumns) {
  Buffer a(1, 3, {1, 2, 3}), b(3, 1, {1, 1, 1});
  run(spec_of(K::add, {3, 1}), {&a, &b});
  EXPECT_EQ(a.values, (std::vector<double>{2, 3, 4}));
}

TEST(Zero, ClearsAViewAndNothingBeside) {
  Buffer x = normal("x", 2, 3, 1);
  run(spec_of(K::zero, {6}), {&x});
  EXPECT_EQ(x.values, (std::vector<double>{0, 0, 0, 1e4, 0, 0, 0, 1e4}));
}

// Each result is rounded once, from fp32 arithmetic that is a few units off: values stay below 16.
TEST(Pointwise, SixteenBitStorageStaysWithinRounding) {
  constexpr std::int64_t kRows = 7, kColumns = 33;
  for (const auto& [dtype, unit] : {std::pair{DType::bf16, 0x1p-8}, {DType::fp16, 0x1p-11}}) {
    for (const std::uint8_t kind : {kGelu, kSwiglu}) {
      Buffer x = normal("x", kRows, kind == kSwiglu ? 2 * kColumns : kColumns);
      for (double& v : x.values) v = rounded(v, dtype);
      Buffer exact = zeros(kRows, kColumns), stored = exact;
      KernelSpec spec = spec_of(K::activation_forward, {kRows, kColumns}, kind);
      run(spec, {&x, &exact});
      spec.dtype = dtype;
      run_stored(spec, {&x, &stored});
      for (std::size_t i = 0; i < exact.values.size(); ++i)
        EXPECT_NEAR(stored.values[i], exact.values[i], unit * std::abs(exact.values[i]) + 1e-6);
    }
    Buffer x = normal("x", kRows, kColumns), scales = normal("s", 2, kColumns);
    for (Buffer* b : {&x, &scales})
      for (double& v : b->values) v = rounded(v, dtype);
    Buffer exact = zeros(kRows, kColumns), stored = exact, stats = zeros(kRows, 2);
    KernelSpec spec = spec_of(K::norm_forward, {kRows, kColumns}, kLayerNorm);
    run(spec, {&x, &scales, &exact, &stats});
    spec.dtype = dtype;
    run_stored(spec, {&x, &scales, &stored, &stats}, {}, {3});
    for (std::size_t i = 0; i < exact.values.size(); ++i)
      EXPECT_NEAR(stored.values[i], exact.values[i], unit * std::abs(exact.values[i]) + 3e-6);
  }
}

}  // namespace
}  // namespace trainyard::testing
