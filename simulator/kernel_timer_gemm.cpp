#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

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
constexpr double kSplitBandwidth = 2.5;         // of HBM: partial sums stay in L2

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

struct Plan {
  double us = std::numeric_limits<double>::infinity();
  std::int64_t blocks = 0;  // thread blocks of the grid
  double block_us = 0;      // time of one
  double split_us = 0;      // adding up the partial sums
};

}  // namespace

// Time of the best of 64 (tile, split-k) candidates: waves of blocks over the SMs. Beside a
// collective cuBLAS still chooses as if it had all SMs, and the waves get longer. Constants are
// fitted to aiconfigurator's A100, H100, H200 and B200 GEMM tables.
double KernelTimer::gemm_us(const KernelSpec& kernel, double sms) const {
  const GpuProfile::Gemm& fit = gpu_.gemm;
  const std::int64_t m = kernel.shape[0], n = kernel.shape[1], k = kernel.shape[2];
  const double peak = peak_tflops(kernel.dtype), all_sms = static_cast<double>(gpu_.sms);
  const double bytes_per_us = gpu_.memory_bandwidth.value * 1e-6;
  Plan best;
  for (const Tile& tile : kTiles) {
    const double flops_per_us =
        fit.tile_efficiency[tile.efficiency] * fit.sustained * peak / all_sms * 1e6;
    const std::int64_t tiles = ceil_div(m, tile.rows) * ceil_div(n, tile.columns);
    const double tile_flops_per_k = 2.0 * static_cast<double>(tile.rows * tile.columns);
    for (const std::int64_t split : kSplits) {
      if (split > 1 && k < kLeastSplitDepth * split) break;
      Plan plan;
      plan.blocks = tiles * split;
      const std::int64_t depth = ceil_div(k, split * kDepthStep) * kDepthStep;
      plan.block_us = tile_flops_per_k * static_cast<double>(depth) / flops_per_us + fit.fill_us;
      if (split > 1)
        plan.split_us = fit.split_k_us + kSplitBytes * static_cast<double>(split * m * n) /
                                             (kSplitBandwidth * bytes_per_us);
      plan.us =
          static_cast<double>(ceil_div(plan.blocks, gpu_.sms)) * plan.block_us + plan.split_us;
      if (plan.us < best.us) best = plan;
    }
  }
  const double waves = std::ceil(static_cast<double>(best.blocks) / sms);
  const double tiles_us = waves * best.block_us + best.split_us;
  const double power_us = 2.0 * static_cast<double>(m) * static_cast<double>(n) *
                          static_cast<double>(k) / (fit.power_cap * fit.sustained * peak * 1e6) *
                          (all_sms / sms);
  const double traffic = static_cast<double>(kernel.read.value + kernel.written.value);
  const double memory_us = traffic / (fit.bandwidth_fraction * bytes_per_us);
  double factor = 1;
  if (kernel.kind == KernelKind::gemm_input_grad) factor = fit.input_grad_factor;
  if (kernel.kind == KernelKind::gemm_weight_grad) factor = fit.weight_grad_factor;
  const auto off = [&](std::int64_t size) { return size % fit.alignment != 0; };
  if (off(m) || off(n) || off(k)) factor *= fit.misaligned_factor;
  return fit.t0_us + factor * std::max({tiles_us, power_us, memory_us});
}

double KernelTimer::batched_gemm_us(const KernelSpec& kernel, double sms) const {
  const double rate = gpu_.batched_gemm_tflops * peak_tflops(kernel.dtype) /
                      peak_tflops(DType::fp16) * sms / static_cast<double>(gpu_.sms);
  const double traffic = static_cast<double>(kernel.read.value + kernel.written.value);
  return gpu_.gemm.t0_us +
         std::max(kernel.flops / (rate * 1e6),
                  traffic / (gpu_.memory_bound.elementwise * gpu_.memory_bandwidth.value * 1e-6));
}

}  // namespace trainyard
