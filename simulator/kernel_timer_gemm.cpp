#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "core/error.h"
#include "simulator/timing.h"

namespace trainyard {
namespace {

struct Tile {
  std::int64_t rows, columns;
  std::size_t efficiency;  // index in GpuProfile::Gemm::tile_efficiency
};

// cuBLAS tiles, largest first (NVIDIA, Matrix Multiplication Background User's Guide, DU-09799).
constexpr std::array<Tile, 8> kTiles{{{256, 128, 0},
                                      {128, 256, 0},
                                      {128, 128, 1},
                                      {256, 64, 1},
                                      {64, 256, 1},
                                      {128, 64, 2},
                                      {64, 128, 2},
                                      {64, 64, 3}}};
constexpr std::array<std::int64_t, 8> kSplits{1, 2, 3, 4, 6, 8, 12, 16};
constexpr std::int64_t kDepthStep = 32;         // a tile's inner loop takes 32 of k at once
constexpr std::int64_t kLeastSplitDepth = 256;  // a split keeps at least this much of k
constexpr double kSplitBytes = 8;               // write and read of an fp32 partial sum
// sgemm of 512 and more reaches 15.8 of A100's 19.5 TFLOPS (NeuSight, median of 105).
constexpr double kCudaCoreFraction = 0.81;
// A vocabulary off its kernels' boundary tripled the output layer's time (Netflix, "Scaling LLM
// Post-Training", 2026): odd rows begin anywhere and are loaded an element at a time.
constexpr double kOddFactor = 3;
constexpr double kSplitBandwidth = 2.5;  // of HBM: partial sums stay in L2
// Tokens at which weight_grad_factor was measured (SimuMax).
constexpr double kWeightGradTokens = 4096;

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

double bytes_per_us(const GpuProfile& gpu) { return gpu.memory_bandwidth.value * 1e-6; }

// `count` products Y[m,n] = X[m,k] W[k,n] of one launch.
struct Product {
  std::int64_t m, n, k, count = 1;
};

// Waves of `tile`s, each `split` ways along k.
double tiled_us(const Tile& tile, std::int64_t split, const Product& product, const GpuProfile& gpu,
                double peak_tflops) {
  const GpuProfile::Gemm& fit = gpu.gemm;
  const auto [m, n, k, count] = product;
  const double flops_per_us = fit.tile_efficiency[tile.efficiency] * fit.sustained * peak_tflops *
                              1e6 / static_cast<double>(gpu.sms);
  const std::int64_t depth = ceil_div(k, split * kDepthStep) * kDepthStep;
  const std::int64_t blocks = ceil_div(m, tile.rows) * ceil_div(n, tile.columns) * split * count;
  const double block_us =
      2.0 * static_cast<double>(tile.rows * tile.columns * depth) / flops_per_us + fit.fill_us;
  const double sum_us = fit.split_k_us + kSplitBytes * static_cast<double>(split * count * m * n) /
                                             (kSplitBandwidth * bytes_per_us(gpu));
  return static_cast<double>(ceil_div(blocks, gpu.sms)) * block_us + (split > 1 ? sum_us : 0);
}

// The fastest of 64 (tile, split-k) candidates.
double best_tiled_us(const Product& product, const GpuProfile& gpu, double peak_tflops) {
  double best = std::numeric_limits<double>::infinity();
  for (const Tile& tile : kTiles)
    for (const std::int64_t split : kSplits) {
      if (split > 1 && product.k < kLeastSplitDepth * split) break;
      best = std::min(best, tiled_us(tile, split, product, gpu, peak_tflops));
    }
  return best;
}

// Time relative to a forward product of aligned dimensions.
double kind_factor(const KernelSpec& kernel, const GpuProfile::Gemm& fit) {
  const bool weight_grad = kernel.kind == KernelKind::gemm_weight_grad;
  const double factor = kernel.kind == KernelKind::gemm_input_grad ? fit.input_grad_factor : 1;
  // Rows in memory must be aligned: of X[m,k], W and Y[m,n]; of X[k,m] for a weight gradient.
  const std::int64_t inner = kernel.shape[weight_grad ? 0 : 2];
  const auto off = [&](std::int64_t elements) {
    return inner % elements != 0 || kernel.shape[1] % elements != 0;
  };
  if (!off(fit.alignment)) return factor;
  return factor * (off(2) ? std::max(kOddFactor, fit.misaligned_factor) : fit.misaligned_factor);
}

}  // namespace

bool multiplies_in_fp8(const KernelSpec& kernel, const Software& software) {
  const bool product = kernel.kind == KernelKind::gemm_forward ||
                       kernel.kind == KernelKind::gemm_input_grad ||
                       kernel.kind == KernelKind::gemm_weight_grad;
  return software.fp8_linear && product && (kernel.flag & kGemmTransposed) == 0;
}

// An input becomes FP8 in one pass that also leaves the transpose that the weight gradient needs:
// 2 bytes read, 1 + 1 written an element. Weights are cast once a step, which is not counted.
double KernelTimer::cast_us(const KernelSpec& kernel) const {
  if (software_.fused_casts || kernel.kind == KernelKind::gemm_weight_grad) return 0;
  const double elements =
      static_cast<double>(kernel.shape[0]) * static_cast<double>(kernel.shape[2]);
  return gpu_.memory_bound.t0_us +
         4 * elements / (gpu_.memory_bound.elementwise * bytes_per_us(gpu_));
}

// What a weight gradient takes to add to its sum, however few tokens it is of. Where the product
// adds itself, it reads and writes the sum where its tiles end, while no other tile of the SM
// multiplies: weight_grad_factor, measured over 4,096 tokens, tells how long. (SimuMax on A100 and
// B200, medians against forward products of equal FLOPs: 1.08 over 2,048 tokens, 1.05 over
// 4,096, 1.03 over 16,384, 1.00 over 32,768.) Else a kernel reads the product's result and updates
// the sum: in fp32 for bf16, in fp16 for fp16 (Megatron-LM before gradient_accumulation_fusion,
// 2022).
double KernelTimer::gradient_sum_us(const KernelSpec& kernel) const {
  if (kernel.kind != KernelKind::gemm_weight_grad) return 0;
  const double elements =
      static_cast<double>(kernel.shape[0]) * static_cast<double>(kernel.shape[1]);
  const GpuProfile::Gemm& fit = gpu_.gemm;
  if (software_.fused_gradient_sum)
    return (fit.weight_grad_factor - 1) * 2 * elements * kWeightGradTokens /
           (fit.power_cap * fit.sustained * peak_tflops(kernel.dtype) * 1e6);
  const double bytes = kernel.dtype == DType::fp16 ? 2 + 2 + 2 : 2 + 4 + 4;
  return gpu_.memory_bound.t0_us +
         bytes * elements / (gpu_.memory_bound.elementwise * bytes_per_us(gpu_));
}

// Waves of tiles over the SMs, or the power limit, or memory, whichever is slowest. Form and
// constants are fitted to aiconfigurator's GEMM tables of A100, H100, H200 and B200. Pieces of one
// product run on several streams (TransformerEngine's userbuffers), so the tail of one and the head
// of the next share a wave.
double KernelTimer::gemm_us(const KernelSpec& kernel) const {
  const GpuProfile::Gemm& fit = gpu_.gemm;
  const bool fp8 = multiplies_in_fp8(kernel, software_);
  if (fp8 && fit.fp8_speedup <= 1)
    throw ConfigError(fmt::format("{} does not multiply in FP8", gpu_.name));
  const double peak = peak_tflops(kernel.dtype) * (fp8 ? fit.fp8_speedup : 1);
  const std::int64_t pieces = std::max<std::int64_t>(1, kernel.shape[3]);
  const double tiles_us =
      best_tiled_us({kernel.shape[0] * pieces, kernel.shape[1], kernel.shape[2]}, gpu_, peak) /
      static_cast<double>(pieces);
  const double flops = 2.0 * static_cast<double>(kernel.shape[0]) *
                       static_cast<double>(kernel.shape[1]) * static_cast<double>(kernel.shape[2]);
  const double power_us = flops / (fit.power_cap * fit.sustained * peak * 1e6);
  const bool weights = kernel.kind == KernelKind::gemm_weight_grad;
  const bool adds = weights && software_.fused_gradient_sum;
  const double sums_us = gradient_sum_us(kernel);
  const double product_us =
      kind_factor(kernel, fit) * std::max(tiles_us, power_us) + (adds ? sums_us : 0);
  // Sums are in fp32; without them the product is written in its type. FP8 halves what is read.
  const auto written = static_cast<double>(kernel.written.value);
  const double sums = weights ? written : 0;
  const double inputs = (static_cast<double>(kernel.read.value) - sums) / (fp8 ? 2 : 1);
  const double outputs = adds      ? sums + written
                         : weights ? written * static_cast<double>(size_of(kernel.dtype)) / 4
                                   : written;
  const double memory_us =
      kind_factor(kernel, fit) * (inputs + outputs) / (fit.bandwidth_fraction * bytes_per_us(gpu_));
  return fit.t0_us + std::max(product_us, memory_us) + (fp8 ? cast_us(kernel) : 0) +
         (adds ? 0 : sums_us);
}

// The products of unfused attention over `heads` heads: scores are s x s with the head dimension
// as depth, contexts and gradients of inputs are s x d with the sequence as depth. Waves of tiles
// as in a GEMM, which pays for head dimensions that fill no tile. Rows off their alignment cannot
// be loaded 16 bytes at once, and cuBLAS then multiplies on CUDA cores (its fp16 sgemm kernels).
double KernelTimer::batched_gemm_us(const KernelSpec& kernel) const {
  const bool scores = kernel.kind == KernelKind::attention_scores ||
                      kernel.kind == KernelKind::attention_scores_grad;
  const bool gradients = kernel.kind == KernelKind::attention_scores_grad ||
                         kernel.kind == KernelKind::attention_context_grad;
  const std::int64_t heads = kernel.shape[0], s = kernel.shape[1], d = kernel.shape[scores ? 3 : 2];
  const Product square{s, s, d, heads}, tall{s, d, s, heads};
  const double peak = peak_tflops(kernel.dtype);
  const auto us = [&](const Product& product) { return best_tiled_us(product, gpu_, peak); };
  const double tiles_us = !gradients ? us(scores ? square : tall)
                          : scores   ? 2 * us(tall)          // dQ and dK
                                     : us(tall) + us(square);  // dV and dP
  const bool aligned = d % gpu_.gemm.alignment == 0;
  const double most = aligned ? gpu_.batched_gemm_tflops * peak / peak_tflops(DType::fp16)
                              : kCudaCoreFraction * gpu_.peak_fp32.value * 1e-12;
  const double traffic = static_cast<double>(kernel.read.value + kernel.written.value);
  return gpu_.gemm.t0_us +
         std::max({tiles_us, kernel.flops / (most * 1e6),
                   traffic / (gpu_.memory_bound.elementwise * bytes_per_us(gpu_))});
}

}  // namespace trainyard
