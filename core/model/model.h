#pragma once
#include <cstdint>

namespace trainyard {

enum class Block : std::uint8_t { serial, parallel };
enum class Norm : std::uint8_t { layernorm, rmsnorm };
enum class Activation : std::uint8_t { gelu, swiglu };
enum class Position : std::uint8_t { learned, rope, none };
enum class AttentionImpl : std::uint8_t { flash, unfused };

// A decoder-only transformer: what is computed, not how it is split.
struct Model {
  std::int64_t layers = 0, hidden = 0, heads = 0;
  std::int64_t kv_heads = 0;  // groups of grouped-query attention; = heads for multi-head
  std::int64_t head_dim = 0;  // hidden / heads unless given
  std::int64_t ffn = 0;       // width after the activation; SwiGLU projects to twice this
  std::int64_t vocab = 0;     // logical size; the planner pads it, see padded_vocab
  std::int64_t window = 0;    // sliding-window attention: keys per query; 0 = full causal
  Block block = Block::serial;
  Norm norm = Norm::layernorm;
  Activation activation = Activation::gelu;
  Position position = Position::learned;
  AttentionImpl attention = AttentionImpl::flash;
  bool tied = true;  // output projection shares the embedding table
  bool bias = true;  // biases on the linear layers
  double dropout = 0.0;

  std::int64_t query_width() const { return heads * head_dim; }
  std::int64_t kv_width() const { return kv_heads * head_dim; }
  std::int64_t qkv_width() const { return query_width() + 2 * kv_width(); }
  std::int64_t fc1_width() const { return activation == Activation::swiglu ? 2 * ffn : ffn; }
};

// Exact number of trainable parameters, logical vocabulary; `sequence` rows of learned positions.
std::int64_t parameter_count(const Model& model, std::int64_t sequence);
std::int64_t layer_parameter_count(const Model& model);

// Which attention a FLOP count charges.
enum class FlopConvention : std::uint8_t {
  full,    // s keys per query, Korthikanti et al. (arXiv 2205.05198, appendix A): the default
  causal,  // only unmasked keys, as Megatron-Core >= 0.12 counts
};

// Model FLOPs (no recompute) of forward + backward for one token, s = sequence. A sliding window
// counts in proportion to the unmasked area it leaves, by either convention.
double model_flops_per_token(const Model& model, std::int64_t sequence, FlopConvention convention);

// Mean number of unmasked keys a query attends to: (s+1)/2 for causal, less with a window.
double mean_causal_keys(std::int64_t sequence, std::int64_t window);

// Rows of the embedding table each tensor rank can share evenly: vocab rounded up to a multiple
// of tensor * divisible_by (Megatron-LM pads the same way, with 128).
std::int64_t padded_vocab(std::int64_t vocab, std::int64_t tensor, std::int64_t divisible_by);

}  // namespace trainyard
