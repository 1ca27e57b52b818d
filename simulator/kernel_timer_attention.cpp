#include <algorithm>
#include <bit>
#include <cmath>
#include <string>

#include "core/error.h"
#include "simulator/timing.h"

namespace trainyard {
namespace {

constexpr std::int64_t kQueryTile = 128;  // queries of a thread block

// Mean keys per query that a kernel working in tiles computes; causal, window 0 = all before.
double computed_keys(double sequence, double window, double tile) {
  const double reach = window > 0 ? std::min(sequence, window + tile) : sequence;
  return reach - reach * reach / (2 * sequence);
}

// The head dimension of the kernel that takes heads of `dim`; the rest is zeros that are multiplied
// all the same. FlashAttention 1 has kernels for 32, 64 and 128 (run_fmha_fwd_hdim*), Triton's
// takes powers of two (BLOCK_HEADDIM), FlashAttention 2 has one for every multiple of 32.
double padded_dim(std::int64_t dim, const std::string& attention) {
  const auto wanted = static_cast<std::uint64_t>(dim);
  const bool powers = attention == "flash1" || attention == "triton";
  const std::uint64_t step = attention == "flash2" ? 32 : 1;
  return static_cast<double>(powers ? std::bit_ceil(wanted) : (wanted + step - 1) / step * step);
}

}  // namespace

const GpuProfile::Attention& KernelTimer::fused_attention() const {
  std::string valid;
  for (const GpuProfile::Attention& kernel : gpu_.attention) {
    if (kernel.name == software_.attention) return kernel;
    valid += (valid.empty() ? "" : ", ") + kernel.name;
  }
  throw ConfigError(fmt::format("{} has no fused attention '{}'; valid: {}", gpu_.name,
                                software_.attention, valid.empty() ? "none" : valid));
}

// Flash attention: efficiency grows with the mean number of keys per query and with the number of
// blocks that share the SMs. Fitted to the charts of flash-attention 1, 2, 3 and cuDNN and to
// aiconfigurator's tables; a window of w keys costs w + one tile, a head that no kernel is made for
// costs what the next wider one does.
double KernelTimer::attention_us(const KernelSpec& kernel) const {
  const GpuProfile::Attention& fit = fused_attention();
  const bool forward = kernel.kind == KernelKind::attention_forward;
  const double batch_heads = static_cast<double>(kernel.shape[0] * kernel.shape[1]);
  const auto sequence = static_cast<double>(kernel.shape[3]);
  // Context ranks have a part of the queries, as many early ones as late ones, and all keys.
  const double queries = sequence / std::max<double>(1, kernel.flag);
  const double dim = padded_dim(kernel.shape[4], fit.name);
  const double keys = computed_keys(sequence, static_cast<double>(kernel.shape[5]),
                                    static_cast<double>(fit.window_tile));
  // 2 products forward; backward recomputes one and takes 4 more (arXiv 2205.14135).
  const double flops = (forward ? 4 : 10) * batch_heads * queries * keys * dim;
  const double wide = std::clamp((dim - 64) / 64, 0.0, 1.0);
  const double wider = std::clamp((dim - 128) / 128, 0.0, 1.0);
  const double tflops = (forward ? fit.forward_tflops : fit.backward_tflops) *
                        (wide + (1 - wide) * fit.head_64) * (1 - wider + wider * fit.head_256);
  const double blocks = batch_heads * std::ceil(queries / static_cast<double>(kQueryTile));
  const double occupancy =
      std::min(1.0, blocks / (fit.blocks_per_sm * static_cast<double>(gpu_.sms)));
  const double busy = std::pow(occupancy, fit.occupancy_exponent);
  // The tensor cores' rate for the type relative to the 16-bit types the fits are for.
  const double type = peak_tflops(kernel.dtype) / peak_tflops(DType::fp16);
  return fit.t0_us + flops / (tflops * type * 1e6) * (1 + fit.half_keys / keys) / busy;
}

}  // namespace trainyard
