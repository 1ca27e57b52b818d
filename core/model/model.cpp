#include "core/model/model.h"

#include <algorithm>

namespace trainyard {
namespace {

std::int64_t norm_parameters(const Model& m) {
  return m.norm == Norm::layernorm ? 2 * m.hidden : m.hidden;
}

// Sum over the queries 0 … s-1 of the keys each may attend to.
double causal_area(std::int64_t s, std::int64_t window) {
  const double n = static_cast<double>(s);
  const double w = window > 0 ? std::min<double>(static_cast<double>(window), n) : n;
  return n * w - w * (w - 1) / 2;
}

}  // namespace

std::int64_t layer_parameter_count(const Model& m) {
  const std::int64_t norms = (m.block == Block::parallel ? 1 : 2) * norm_parameters(m);
  const std::int64_t attention = m.hidden * m.qkv_width() + m.query_width() * m.hidden;
  const std::int64_t mlp = m.hidden * m.fc1_width() + m.ffn * m.hidden;
  // The branches of a parallel block end in one sum, which has one bias.
  const std::int64_t sums = m.block == Block::parallel ? 1 : 2;
  const std::int64_t biases = m.bias ? m.qkv_width() + m.fc1_width() + sums * m.hidden : 0;
  return norms + attention + mlp + biases;
}

std::int64_t parameter_count(const Model& m, std::int64_t sequence) {
  const std::int64_t positions = m.position == Position::learned ? sequence * m.hidden : 0;
  const std::int64_t tables = (m.tied ? 1 : 2) * m.vocab * m.hidden;
  return m.layers * layer_parameter_count(m) + tables + positions + norm_parameters(m);
}

double mean_causal_keys(std::int64_t sequence, std::int64_t window) {
  return causal_area(sequence, window) / static_cast<double>(sequence);
}

double model_flops_per_token(const Model& m, std::int64_t sequence, FlopConvention convention) {
  const double h = static_cast<double>(m.hidden);
  const double projections =
      h * static_cast<double>(m.qkv_width() + m.query_width() + m.fc1_width() + m.ffn);
  const double causal = mean_causal_keys(sequence, m.window);
  const double full = static_cast<double>(sequence) * causal / mean_causal_keys(sequence, 0);
  const double keys = convention == FlopConvention::full ? full : causal;
  const double attention = 2 * keys * static_cast<double>(m.query_width());
  const double logits = h * static_cast<double>(m.vocab);
  // 2 FLOPs a multiply-add, forward once and backward twice.
  return 6 * (static_cast<double>(m.layers) * (projections + attention) + logits);
}

std::int64_t padded_vocab(std::int64_t vocab, std::int64_t tensor, std::int64_t divisible_by) {
  const std::int64_t multiple = tensor * divisible_by;
  return (vocab + multiple - 1) / multiple * multiple;
}

}  // namespace trainyard
