#include <gtest/gtest.h>

#include <array>
#include <cmath>

#include "core/error.h"
#include "simulator/timing.h"
#include "tests/simulator/profiles.h"

namespace trainyard {
namespace {

using K = KernelKind;

KernelSpec gemm(K kind, std::int64_t m, std::int64_t n, std::int64_t k) {
  KernelSpec spec;
  spec.kind = kind;
  spec.shape = {m, n, k};
  spec.flops = 2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
  const bool weight_grad = kind == K::gemm_weight_grad;  // reads and writes fp32 sums
  spec.read = {2 * (m * k + k * n) + (weight_grad ? 4 * m * n : 0)};
  spec.written = {(weight_grad ? 4 : 2) * m * n};
  return spec;
}

// bytes_per_element counts what the fused kernel reads and writes for one of rows x columns.
KernelSpec memory(K kind, std::int64_t rows, std::int64_t columns, std::int64_t bytes_per_element) {
  KernelSpec spec;
  spec.kind = kind;
  spec.shape = {rows, columns};
  spec.read = {rows * columns * bytes_per_element};
  return spec;
}

double us(const KernelTimer& timer, const KernelSpec& spec) {
  return to_microseconds(timer.time(spec));
}

class A100 : public testing::Test {
 protected:
  A100() : timer(load_gpu("a100-sxm-80"), {}) {}
  double gemm_us(std::int64_t m, std::int64_t n, std::int64_t k) {
    return us(timer, gemm(K::gemm_forward, m, n, k));
  }
  KernelTimer timer;
};

// aiconfigurator 095f58a, A100-SXM, sglang rows with n = k = 4096: 256 x 128 tiles give
// ceil(ceil(m / 256) * 32 / 108) waves of about 104 us.
TEST_F(A100, GemmTimeClimbsAStairOfWaves) {
  const struct {
    std::int64_t m;
    double measured_us;
  } rows[] = {{512, 97},   {768, 112},  {1024, 208}, {1280, 208}, {1792, 308},
              {2304, 318}, {2560, 311}, {2816, 438}, {3328, 437}, {3584, 514},
              {4096, 549}, {4097, 626}, {4352, 628}};
  double sum = 0;
  for (const auto& row : rows) {
    const double error = std::abs(gemm_us(row.m, 4096, 4096) / row.measured_us - 1);
    EXPECT_LT(error, 0.15) << row.m;
    sum += error;
  }
  EXPECT_LT(sum / std::size(rows), 0.06);
  EXPECT_GT(gemm_us(1792, 4096, 4096), 1.4 * gemm_us(1280, 4096, 4096));  // one more wave
}

// The GEMMs of a 175B layer on 8 tensor ranks, one sequence of 2048 (aiconfigurator: proj 332 on
// trtllm; fc1 1204 trtllm, 1170 vllm, 1302 sglang). The profile describes the sglang stack.
TEST_F(A100, GemmsOf175BLayerMatchMeasurements) {
  EXPECT_NEAR(gemm_us(2048, 6144, 12288), 1302, 0.03 * 1302);
  EXPECT_NEAR(gemm_us(2048, 12288, 1536), 332, 0.08 * 332);
}

TEST_F(A100, GemmNeverBeatsThePeak) {
  for (std::int64_t size = 128; size <= 16384; size *= 2) {
    const double tflops = 2e-6 * std::pow(static_cast<double>(size), 3) / gemm_us(size, size, size);
    EXPECT_LT(tflops, 312 * 0.8) << size;
  }
}

// SimuMax, medians of weight gradients against forward products of equal FLOPs: the sums in fp32
// cost the same over few tokens and over many.
TEST_F(A100, SumsOfWeightGradientsCostTheMoreTheFewerTheTokens) {
  const auto ratio = [&](std::int64_t tokens) {
    return us(timer, gemm(K::gemm_weight_grad, 12288, 6144, tokens)) / gemm_us(12288, 6144, tokens);
  };
  EXPECT_NEAR(ratio(2048), 1.08, 0.02);
  EXPECT_NEAR(ratio(32768), 1.00, 0.01);
}

// Pieces of one product share waves, so that only their fixed times come on top.
TEST_F(A100, PiecesOfAProductTakeTheTimeOfTheWhole) {
  KernelSpec piece = gemm(K::gemm_forward, 512, 6144, 12288);
  piece.shape[3] = 4;
  const double whole = gemm_us(2048, 6144, 12288);
  EXPECT_NEAR(4 * us(timer, piece), whole + 3 * load_gpu("a100-sxm-80").gemm.t0_us, 0.1);
}

// 6 bytes a weight in fp16 at what passes reach of 2,039 GB/s, and a launch of 2.5 us.
TEST_F(A100, SumsOfGradientsOutsideTheProductAreAPassOverMemory) {
  Software old;
  old.fused_gradient_sum = false;
  KernelSpec product = gemm(K::gemm_weight_grad, 8192, 8192, 2048);
  product.dtype = DType::fp16;
  KernelSpec forward = product;
  forward.kind = K::gemm_forward;
  const double more = us(KernelTimer(load_gpu("a100-sxm-80"), old), product) - us(timer, forward);
  const double reached = load_gpu("a100-sxm-80").memory_bound.elementwise;
  EXPECT_NEAR(more, 2.5 + 6.0 * 8192 * 8192 / (reached * 2039e3), 0.1);
}

// BLOOM's sweep has heads of 108: no multiple of 8, so fp16 products run on CUDA cores, 19.5
// TFLOPS.
TEST_F(A100, ProductsOfHeadsOffTheAlignmentLeaveTheTensorCores) {
  const auto scores = [&](std::int64_t dim) {
    KernelSpec spec;
    spec.kind = K::attention_scores;
    spec.dtype = DType::fp16;
    spec.shape = {64, 2048, 2048, dim};
    spec.flops = 2.0 * 64 * 2048 * 2048 * static_cast<double>(dim);
    return spec.flops / us(timer, spec) * 1e-6;
  };
  EXPECT_LT(scores(108), 19.5);
  EXPECT_GT(scores(112), 50);
}

// ml-engineering, best shapes over 150 iterations on H100: 1402.6 TFLOPS in FP8, 794.5 in bf16.
TEST(Gemm, Fp8IsFasterByWhatWasMeasuredOnceInputsAreCast) {
  const GpuProfile gpu = load_gpu("h100-sxm");
  Software fp8;
  fp8.fp8_linear = fp8.fused_casts = true;
  const KernelSpec product = gemm(K::gemm_forward, 8192, 16384, 8192);
  const double bf16_us = us(KernelTimer(gpu, {}), product);
  const double fp8_us = us(KernelTimer(gpu, fp8), product);
  EXPECT_NEAR(bf16_us / fp8_us, 1402.6 / 794.5, 0.02);
  // 4 bytes an element of the input at 0.87 of 3,350 GB/s, and a launch of 2.5 us.
  fp8.fused_casts = false;
  EXPECT_NEAR(us(KernelTimer(gpu, fp8), product) - fp8_us,
              2.5 + 4.0 * 8192 * 8192 / (0.87 * 3350e3), 0.1);
  KernelSpec logits = product;
  logits.flag = kGemmTransposed;
  EXPECT_EQ(us(KernelTimer(gpu, fp8), logits), bf16_us);
  EXPECT_THROW(us(KernelTimer(load_gpu("a100-sxm-80"), fp8), product), ConfigError);
}

// ml-engineering, SwiGLU widths on H100: 272.7 against 398.4 TFLOPS, 1.46 x.
TEST(Gemm, MisalignedRowsAreSlow) {
  const KernelTimer h100(load_gpu("h100-sxm"), {});
  const double aligned = us(h100, gemm(K::gemm_forward, 8192, 10944, 4096));
  EXPECT_NEAR(us(h100, gemm(K::gemm_forward, 8192, 10922, 4096)) / aligned, 398.4 / 272.7, 0.02);
  // Tokens are no row length: an odd number of them costs nothing.
  EXPECT_NEAR(us(h100, gemm(K::gemm_forward, 8191, 8192, 4096)),
              us(h100, gemm(K::gemm_forward, 8192, 8192, 4096)), 1);
  EXPECT_NEAR(us(h100, gemm(K::gemm_forward, 8192, 10943, 4096)) / aligned, 3, 0.02);
}

TEST(Gemm, DtypeWithoutUnitsIsRefused) {
  const KernelTimer v100(load_gpu("v100-sxm-32"), {});
  KernelSpec spec = gemm(K::gemm_forward, 1024, 1024, 1024);
  spec.dtype = DType::bf16;
  EXPECT_THROW(v100.time(spec), ConfigError);
  spec.dtype = DType::fp16;
  EXPECT_GT(v100.time(spec), Time{});
}

// vidur 7d47513: residual add of fp16 beyond 40 MB, 1707 GB/s on A100 and 3178 on H100.
TEST(MemoryBound, ResidualAddReachesMeasuredBandwidth) {
  const auto gbs = [](const char* gpu) {
    const KernelTimer timer(load_gpu(gpu), {});
    return 65536.0 * 8192 * 6e-3 / us(timer, memory(K::add, 65536, 8192, 6));
  };
  EXPECT_NEAR(gbs("a100-sxm-80"), 1707, 0.05 * 1707);
  EXPECT_NEAR(gbs("h100-sxm"), 3178, 0.09 * 3178);
}

// NeuSight 6945927, torch on A100-80 PCIe: LayerNorm of rows of 4,096 to 16,384 0.55 of 1,935 GB/s;
// median of elementwise kernels 1681 GB/s; softmax 0.68 to 0.74 of the bandwidth.
TEST(MemoryBound, TorchKernelsReachMeasuredBandwidth) {
  Software torch;
  torch.fused_norm = false;
  const KernelTimer timer(load_gpu("a100-pcie-80"), torch);
  const auto gbs = [&](K kind) {
    return 65536.0 * 8192 * 4e-3 / us(timer, memory(kind, 65536, 8192, 4));
  };
  EXPECT_NEAR(gbs(K::norm_forward), 0.552 * 1935, 0.03 * 0.552 * 1935);
  EXPECT_NEAR(gbs(K::add), 1681, 0.03 * 1681);
  EXPECT_NEAR(gbs(K::softmax_forward), 0.71 * 1935, 0.05 * 1935);
}

// Liger-Kernel ead96b6, H100, 8192 rows: Megatron's fused cross-entropy takes 2.83 and 11.8 ms
// forward, 1.62 and 6.4 more backward, at V = 32768 and 131072.
TEST(MemoryBound, CrossEntropyMatchesMegatronFused) {
  const KernelTimer timer(load_gpu("h100-sxm"), {});
  for (const auto& [vocab, forward_ms, backward_ms] :
       {std::tuple{32768, 2.83, 1.62}, std::tuple{131072, 11.8, 6.4}}) {
    const double forward_us = us(timer, memory(K::loss_max, 8192, vocab, 2)) +
                              us(timer, memory(K::loss_sum, 8192, vocab, 2));
    EXPECT_NEAR(forward_us / 1e3, forward_ms, 0.08 * forward_ms);
    EXPECT_NEAR(us(timer, memory(K::loss_backward, 8192, vocab, 4)) / 1e3, backward_ms,
                0.08 * backward_ms);
  }
}

TEST(MemoryBound, UnfusedSoftwareIsSlower) {
  const GpuProfile gpu = load_gpu("a100-sxm-80");
  Software unfused;
  unfused.fused_norm = unfused.fused_residual = unfused.fused_activation = false;
  for (const K kind : {K::norm_forward, K::norm_backward, K::residual_forward, K::residual_backward,
                       K::activation_forward, K::activation_backward}) {
    const KernelSpec spec = memory(kind, 8192, 12288, 6);
    EXPECT_GT(us(KernelTimer(gpu, unfused), spec), 1.2 * us(KernelTimer(gpu, {}), spec));
  }
}

}  // namespace
}  // namespace trainyard
