#include <cmath>

#include "tests/backends/cpu/kernels/harness.h"

namespace trainyard::testing {
namespace {

using K = KernelKind;

// The plain sum of products: result[m,n] = sum over k of a(m, k) b(k, n).
template <class A, class B>
Buffer by_definition(std::int64_t m, std::int64_t n, std::int64_t k, A a, B b) {
  Buffer y = zeros(m, n);
  for (std::int64_t i = 0; i < m; ++i)
    for (std::int64_t j = 0; j < n; ++j)
      for (std::int64_t l = 0; l < k; ++l) y.at(i, j) += a(i, l) * b(l, j);
  return y;
}

TEST(Gemm, SmallProductWithBias) {
  Buffer x(2, 3, {1, 2, 3, 4, 5, 6}), w(3, 2, {1, 0, 0, 1, 1, 1}), bias(1, 2, {10, 20});
  Buffer y = zeros(2, 2);
  run(spec_of(K::gemm_forward, {2, 2, 3}, kGemmBias), {&x, &w, &bias, &y});
  EXPECT_EQ(y.values, (std::vector<double>{14, 25, 20, 31}));  // 1+3+10, 2+3+20, 4+6+10, 5+6+20
}

// A fused block's joint product has a bias for its first columns only.
TEST(Gemm, BiasMayBeNarrowerThanTheResult) {
  Buffer x(1, 1, {2}), w(1, 3, {1, 2, 3}), bias(1, 2, {10, 20}), y = normal("y", 1, 3);
  run(spec_of(K::gemm_forward, {1, 3, 1}, kGemmBias), {&x, &w, &bias, &y});
  EXPECT_EQ(y.values, (std::vector<double>{12, 24, 6}));
}

struct Size {
  std::int64_t m, n, k;
};

// One row, one column, depth one, primes, and more than one block, tile or depth of packing.
constexpr Size kSizes[] = {{1, 1, 1},    {1, 7, 5},   {13, 1, 3},   {5, 3, 1},
                           {17, 31, 29}, {1, 801, 2}, {797, 3, 11}, {15, 33, 401}};

TEST(Gemm, AllKindsEqualTheirDefinitionOnStridedOperands) {
  for (const auto& [m, n, k] : kSizes) {
    for (const std::uint8_t adds : {0, +kGemmAdds}) {
      Buffer a = normal("a", m, k, 3), w = normal("w", k, n, 1), wt = normal("wt", n, k, 2);
      const Buffer before = normal("y", m, n, 5);
      const auto expected = [&](auto b) {
        Buffer y = by_definition(
            m, n, k, [&](auto i, auto l) { return a.at(i, l); }, b);
        for (std::int64_t i = 0; adds != 0 && i < m; ++i)
          for (std::int64_t j = 0; j < n; ++j) y.at(i, j) += before.at(i, j);
        return y;
      };
      const auto plain = [&](auto l, auto j) { return w.at(l, j); };
      const auto turned = [&](auto l, auto j) { return wt.at(j, l); };
      const auto check = [&](K kind, std::uint8_t flag, Buffer& weight, const Buffer& right) {
        Buffer y = before;
        run(spec_of(kind, {m, n, k}, flag | adds), {&a, &weight, &y});
        EXPECT_LT(difference(y, right), 1e-12) << m << " " << n << " " << k << " " << int{flag};
      };
      check(K::gemm_forward, 0, w, expected(plain));
      check(K::gemm_forward, kGemmTransposed, wt, expected(turned));
      check(K::gemm_input_grad, 0, wt, expected(turned));
      check(K::gemm_input_grad, kGemmTransposed, w, expected(plain));
    }
  }
}

TEST(Gemm, WeightGradientAddsToWeightAndBias) {
  for (const auto& [m, n, k] : kSizes) {
    Buffer x = normal("x", k, m, 2), dy = normal("dy", k, n, 1);
    Buffer dw = normal("dw", m, n), dwt = normal("dwt", n, m), dbias = normal("db", 1, n);
    const Buffer dw0 = dw, dwt0 = dwt, dbias0 = dbias;
    run(spec_of(K::gemm_weight_grad, {m, n, k}, kGemmBias), {&x, &dy, &dw, &dbias});
    run(spec_of(K::gemm_weight_grad, {m, n, k}, kGemmTransposed), {&x, &dy, &dwt});
    const Buffer product = by_definition(
        m, n, k, [&](auto i, auto l) { return x.at(l, i); },
        [&](auto l, auto j) { return dy.at(l, j); });
    for (std::int64_t j = 0; j < n; ++j) {
      double sum = dbias0.at(0, j);
      for (std::int64_t l = 0; l < k; ++l) sum += dy.at(l, j);
      EXPECT_NEAR(dbias.at(0, j), sum, 1e-12);
      for (std::int64_t i = 0; i < m; ++i) {
        EXPECT_NEAR(dw.at(i, j) - dw0.at(i, j), product.at(i, j), 1e-11);
        EXPECT_NEAR(dwt.at(j, i) - dwt0.at(j, i), product.at(i, j), 1e-11);
      }
    }
  }
}

// Sums are in fp32 and rounded once, so the error is half a unit in the last place (2^-8 for bf16,
// 2^-11 for fp16, relative) of the result that exact arithmetic gives on the rounded factors, plus
// fp32's own, bounded by k 2^-24 times the sum of magnitudes. Depth 1500 takes two panels.
TEST(Gemm, SixteenBitStorageRoundsOnce) {
  constexpr std::int64_t kM = 5, kN = 6, kDepth = 1500;
  for (const auto& [dtype, unit] : {std::pair{DType::bf16, 0x1p-8}, {DType::fp16, 0x1p-11}}) {
    Buffer x = normal("x", kM, kDepth), w = normal("w", kDepth, kN), y = zeros(kM, kN);
    for (Buffer* b : {&x, &w})
      for (double& v : b->values) v = rounded(v, dtype);
    const Buffer exact = by_definition(
        kM, kN, kDepth, [&](auto i, auto l) { return x.at(i, l); },
        [&](auto l, auto j) { return w.at(l, j); });
    const Buffer size = by_definition(
        kM, kN, kDepth, [&](auto i, auto l) { return std::abs(x.at(i, l)); },
        [&](auto l, auto j) { return std::abs(w.at(l, j)); });
    KernelSpec spec = spec_of(K::gemm_forward, {kM, kN, kDepth});
    spec.dtype = dtype;
    run_stored(spec, {&x, &w, &y});
    bool rounds = false;
    for (std::int64_t i = 0; i < kM; ++i)
      for (std::int64_t j = 0; j < kN; ++j) {
        const double error = std::abs(y.at(i, j) - exact.at(i, j));
        EXPECT_LE(error, unit * std::abs(exact.at(i, j)) + kDepth * 0x1p-24 * size.at(i, j));
        rounds = rounds || error > 0.1 * unit * std::abs(exact.at(i, j));
      }
    EXPECT_TRUE(rounds);
  }
}

TEST(Gemm, SixteenBitWeightGradientsStayInFp32) {
  Buffer x(1, 1, {1}), dy(1, 1, {1}), dw(1, 1, {0x1p-20});
  KernelSpec spec = spec_of(K::gemm_weight_grad, {1, 1, 1});
  spec.dtype = DType::bf16;
  run_stored(spec, {&x, &dy, &dw}, {}, {2});
  EXPECT_EQ(dw.at(0, 0), 1 + 0x1p-20);
}

TEST(Gemm, OperandsThatDoNotFitAreNamed) {
  Buffer x = zeros(2, 3), w = zeros(4, 2), y = zeros(2, 2);
  try {
    run(spec_of(K::gemm_forward, {2, 2, 3}), {&x, &w, &y});
    FAIL();
  } catch (const std::logic_error& error) {
    EXPECT_STREQ(error.what(), "operand 1 of gemm_forward is [4, 2] with rows 2 apart, not [3, 2]");
  }
  EXPECT_THROW(run(spec_of(K::gemm_forward, {2, 2, 3}), {&x}), std::logic_error);
  KernelSpec half = spec_of(K::gemm_forward, {2, 2, 3});
  half.dtype = DType::bf16;
  EXPECT_THROW(run_stored(half, {&x, &x, &y}, {}, {0}), std::logic_error);
}

}  // namespace
}  // namespace trainyard::testing
