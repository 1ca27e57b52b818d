#include <fmt/core.h>

#include "backends/common/hugging_face.h"
#include "backends/common/model_json.h"
#include "core/error.h"

namespace trainyard {
namespace {

// Throws unless the model has the family's structure.
void require(const Model& actual, Model family, std::string_view name) {
  family.layers = actual.layers, family.hidden = actual.hidden, family.heads = actual.heads;
  family.ffn = actual.ffn, family.vocab = actual.vocab;
  const std::vector<std::string> differences = model_differences(actual, family);
  if (differences.empty()) return;
  std::string text = fmt::format("{} cannot express this model:", name);
  for (const std::string& difference : differences) text += " " + difference + ";";
  text.pop_back();
  throw ConfigError(text);
}

class Table {
 public:
  void vector(std::string name, const std::string& tensor, std::int64_t row, std::int64_t size) {
    tensors_.push_back({std::move(name), {size}, false, {{tensor, row, 1, size}}});
  }
  void matrix(std::string name, const std::string& tensor, std::int64_t rows,
              std::int64_t columns) {
    tensors_.push_back({std::move(name), {rows, columns}, false, {{tensor, 0, rows, columns}}});
  }
  // Stored [out, in].
  void transposed(std::string name, const std::string& tensor, std::int64_t in, std::int64_t out) {
    tensors_.push_back({std::move(name), {out, in}, true, {{tensor, 0, in, out}}});
  }
  void add(HfTensor tensor) { tensors_.push_back(std::move(tensor)); }
  std::vector<HfTensor> take() { return std::move(tensors_); }

 private:
  std::vector<HfTensor> tensors_;
};

void gpt2_layer(Table& t, const Model& m, std::int64_t layer) {
  const std::string from = fmt::format("transformer.h.{}.", layer);
  const std::string to = fmt::format("layer{}.", layer);
  const std::int64_t h = m.hidden;
  const auto norm = [&](const std::string& name, const char* tensor) {
    t.vector(from + name + ".weight", to + tensor, 0, h);
    t.vector(from + name + ".bias", to + tensor, 1, h);
  };
  const auto linear = [&](const std::string& name, const std::string& tensor, std::int64_t in,
                          std::int64_t out) {
    t.matrix(from + name + ".weight", to + tensor, in, out);
    t.vector(from + name + ".bias", to + tensor + "_bias", 0, out);
  };
  norm("ln_1", "norm1");
  t.add({from + "attn.c_attn.weight",
         {h, 3 * h},
         false,
         {{to + "q", 0, h, h}, {to + "k", 0, h, h}, {to + "v", 0, h, h}}});
  t.add({from + "attn.c_attn.bias",
         {3 * h},
         false,
         {{to + "q_bias", 0, 1, h}, {to + "k_bias", 0, 1, h}, {to + "v_bias", 0, 1, h}}});
  linear("attn.c_proj", "proj", h, h);
  norm("ln_2", "norm2");
  linear("mlp.c_fc", "fc1", h, m.ffn);
  linear("mlp.c_proj", "fc2", m.ffn, h);
}

std::vector<HfTensor> gpt2_tensors(const HfModel& model) {
  const Model& m = model.model;
  Model family;  // its defaults are GPT-2's
  family.kv_heads = m.heads;
  family.head_dim = m.heads > 0 ? m.hidden / m.heads : 0;
  require(m, family, "GPT-2");
  Table t;
  t.matrix("transformer.wte.weight", "embedding", m.vocab, m.hidden);
  t.matrix("transformer.wpe.weight", "positions", model.sequence, m.hidden);
  for (std::int64_t layer = 0; layer < m.layers; ++layer) gpt2_layer(t, m, layer);
  t.vector("transformer.ln_f.weight", "final_norm", 0, m.hidden);
  t.vector("transformer.ln_f.bias", "final_norm", 1, m.hidden);
  return t.take();
}

void llama_layer(Table& t, const Model& m, std::int64_t layer) {
  const std::string from = fmt::format("model.layers.{}.", layer);
  const std::string to = fmt::format("layer{}.", layer);
  t.vector(from + "input_layernorm.weight", to + "norm1", 0, m.hidden);
  const struct {
    const char *name, *tensor;
    std::int64_t in, out;
  } linears[] = {{"self_attn.q_proj", "q", m.hidden, m.query_width()},
                 {"self_attn.k_proj", "k", m.hidden, m.kv_width()},
                 {"self_attn.v_proj", "v", m.hidden, m.kv_width()},
                 {"self_attn.o_proj", "proj", m.query_width(), m.hidden},
                 {"mlp.gate_proj", "gate", m.hidden, m.ffn},
                 {"mlp.up_proj", "value", m.hidden, m.ffn},
                 {"mlp.down_proj", "fc2", m.ffn, m.hidden}};
  for (const auto& l : linears) t.transposed(from + l.name + ".weight", to + l.tensor, l.in, l.out);
  t.vector(from + "post_attention_layernorm.weight", to + "norm2", 0, m.hidden);
}

std::vector<HfTensor> llama_tensors(const HfModel& model) {
  const Model& m = model.model;
  Model family;
  family.kv_heads = m.kv_heads, family.head_dim = m.head_dim, family.tied = m.tied,
  family.bias = false;
  family.norm = Norm::rmsnorm;
  family.activation = Activation::swiglu;
  family.position = Position::rope;
  require(m, family, "Llama");
  Table t;
  t.matrix("model.embed_tokens.weight", "embedding", m.vocab, m.hidden);
  for (std::int64_t layer = 0; layer < m.layers; ++layer) llama_layer(t, m, layer);
  t.vector("model.norm.weight", "final_norm", 0, m.hidden);
  if (!m.tied) t.matrix("lm_head.weight", "head", m.vocab, m.hidden);
  return t.take();
}

}  // namespace

HfFamily hf_family_of(std::string_view name) {
  if (name == "hf-gpt2") return HfFamily::gpt2;
  if (name == "hf-llama") return HfFamily::llama;
  throw ConfigError(
      fmt::format("\"{}\" is no known family of models; known: hf-gpt2, hf-llama", name));
}

std::vector<HfTensor> hf_tensors(const HfModel& model, HfFamily family) {
  return family == HfFamily::gpt2 ? gpt2_tensors(model) : llama_tensors(model);
}

}  // namespace trainyard
