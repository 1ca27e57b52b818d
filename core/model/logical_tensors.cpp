#include "core/model/logical_tensors.h"

#include <fmt/core.h>

namespace trainyard {
namespace {

class Lister {
 public:
  explicit Lister(const Model& model) : m_(model) {}

  std::vector<LogicalTensor> list(std::int64_t sequence) {
    add("embedding", m_.vocab, m_.hidden, Start::normal);
    if (m_.position == Position::learned) add("positions", sequence, m_.hidden, Start::normal);
    for (std::int64_t layer = 0; layer < m_.layers; ++layer) add_layer(layer);
    prefix_.clear();
    add_norm("final_norm");
    if (!m_.tied) add("head", m_.vocab, m_.hidden, Start::normal);
    return std::move(tensors_);
  }

 private:
  void add(const char* name, std::int64_t rows, std::int64_t columns, Start start) {
    tensors_.push_back({prefix_ + name, rows, columns, start});
  }
  void add_norm(const char* name) {
    add(name, m_.norm == Norm::layernorm ? 2 : 1, m_.hidden, Start::norm);
  }
  void add_linear(const std::string& name, std::int64_t in, std::int64_t out, Start start) {
    add(name.c_str(), in, out, start);
    if (m_.bias) add((name + "_bias").c_str(), 1, out, Start::zero);
  }

  void add_layer(std::int64_t layer) {
    prefix_ = fmt::format("layer{}.", layer);
    add_norm("norm1");
    add_linear("q", m_.hidden, m_.query_width(), Start::normal);
    add_linear("k", m_.hidden, m_.kv_width(), Start::normal);
    add_linear("v", m_.hidden, m_.kv_width(), Start::normal);
    add_linear("proj", m_.query_width(), m_.hidden, Start::residual);
    if (m_.block == Block::serial) add_norm("norm2");
    if (m_.activation == Activation::swiglu) {
      add_linear("gate", m_.hidden, m_.ffn, Start::normal);
      add_linear("value", m_.hidden, m_.ffn, Start::normal);
    } else {
      add_linear("fc1", m_.hidden, m_.ffn, Start::normal);
    }
    if (m_.block == Block::serial)
      add_linear("fc2", m_.ffn, m_.hidden, Start::residual);
    else  // the sum of both branches has one bias: proj_bias
      add("fc2", m_.ffn, m_.hidden, Start::residual);
  }

  const Model& m_;
  std::string prefix_;
  std::vector<LogicalTensor> tensors_;
};

}  // namespace

std::vector<LogicalTensor> logical_tensors(const Model& model, std::int64_t sequence) {
  return Lister(model).list(sequence);
}

Rectangle whole(const LogicalTensor& t, std::int64_t offset) {
  return {t.name, {t.rows, t.columns}, 0, 0, t.rows, t.columns, offset, t.columns};
}

}  // namespace trainyard
