#pragma once
#include <cstdint>

#include "core/config/job.h"
#include "core/plan/kernels.h"
#include "core/program/program.h"

namespace trainyard {

// Sizes that one rank works with, and the switches that shape its passes.
struct Dims {
  explicit Dims(const Job& job);

  Model model;
  std::int64_t tensor = 1, context = 1;
  std::int64_t replicas = 1;  // data x context: ranks that hold the same weights
  std::int64_t micro_batch = 1, sequence = 1;
  std::int64_t tokens = 0;        // of a micro-batch: its sequences' parts, with context > 1
  std::int64_t shard_tokens = 0;  // of a rank's residual stream: tokens / tensor when sequence
  std::int64_t heads = 0, kv_heads = 0, query = 0, kv = 0, qkv = 0, fc1 = 0, ffn = 0;  // local
  std::int64_t vocab = 0;  // padded, all ranks
  std::int64_t local_vocab = 0;
  DType dtype = DType::bf16;  // parameters and activations
  bool sequence_parallel = false;
  bool parallel_block = false;  // whose QKV+fc1 and proj+fc2 are one product each (PaLM)
  std::int32_t parts = 1;       // pieces of GEMMs and their tensor collectives
  std::int32_t zero = 0;        // 0 when there is nothing to shard over
  Recompute recompute = Recompute::none;
  Optimizer optimizer = Optimizer::adam;
  bool split_backward = false;  // weight gradients in passes of their own
  Overlap overlap;

  std::int64_t hidden() const { return model.hidden; }
  std::int64_t element() const { return size_of(dtype); }
  bool tensor_parallel() const { return tensor > 1; }
  // Replicated parameters whose gradients each tensor rank computes on its own rows only.
  bool partial_norm_gradients() const { return sequence_parallel; }
  AttentionShape attention() const {
    return {micro_batch, heads, kv_heads, sequence, model.head_dim, model.window, context};
  }
};

// The model's dropouts, numbered independently of the layout.
enum class LayerDropout : std::uint32_t { attention, after_attention, output };
inline constexpr std::uint32_t kEmbeddingDropout = 0;
constexpr std::uint32_t dropout_site(std::int64_t layer, LayerDropout which) {
  return static_cast<std::uint32_t>(1 + 3 * layer) + static_cast<std::uint32_t>(which);
}

}  // namespace trainyard
