#include <fmt/core.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "backends/common/hugging_face.h"
#include "core/error.h"

namespace trainyard {
namespace {

using Json = nlohmann::ordered_json;

constexpr double kRotaryBase = 10000, kNormEpsilon = 1e-5;

// A config.json with what is wrong with it.
class Config {
 public:
  explicit Config(const std::filesystem::path& path) : path_(path) {
    std::ifstream file(path);
    if (!file) throw ConfigError(fmt::format("{}: cannot be opened", path.string()));
    json_ = Json::parse(file, nullptr, false);
    if (!json_.is_object()) throw ConfigError(fmt::format("{}: is no JSON object", path.string()));
    // Newer files keep rope_theta and its kin in an object of their own.
    if (has("rope_parameters") && json_["rope_parameters"].is_object())
      json_.update(Json(json_["rope_parameters"]));
  }

  bool has(const char* key) const { return json_.contains(key) && !json_[key].is_null(); }

  std::int64_t size(const char* key) {
    if (has(key) && json_[key].is_number_unsigned() && json_[key] > 0)
      return json_[key].get<std::int64_t>();
    problems_.push_back(
        fmt::format("{}: \"{}\": expected a positive integer", path_.string(), key));
    return 1;
  }
  std::int64_t size(const char* key, std::int64_t absent) { return has(key) ? size(key) : absent; }
  bool flag(const char* key, bool absent) const {
    return has(key) && json_[key].is_boolean() ? json_[key].get<bool>() : absent;
  }
  // The engine has one value of this setting; absent counts as `absent`.
  void only(const char* key, const Json& value, const Json& absent) {
    const Json given = has(key) ? json_[key] : absent;
    if (given != value)
      problems_.push_back(fmt::format("{}: \"{}\" is {}, only {} is supported", path_.string(), key,
                                      given.dump(), value.dump()));
  }
  void done() const {
    if (!problems_.empty()) throw ConfigError(problems_);
  }

 private:
  std::filesystem::path path_;
  Json json_;
  std::vector<std::string> problems_;
};

HfModel gpt2_config(Config& c) {
  HfModel hf;
  Model& m = hf.model;
  c.only("model_type", "gpt2", nullptr);
  m.vocab = c.size("vocab_size");
  m.hidden = c.size("n_embd");
  m.layers = c.size("n_layer");
  m.heads = m.kv_heads = c.size("n_head");
  m.head_dim = m.hidden / m.heads;
  m.ffn = c.size("n_inner", 4 * m.hidden);
  hf.sequence = c.size("n_positions");
  c.only("activation_function", "gelu_new", "gelu_new");
  c.only("layer_norm_epsilon", kNormEpsilon, kNormEpsilon);
  c.only("tie_word_embeddings", true, true);
  c.only("scale_attn_weights", true, true);
  c.only("scale_attn_by_inverse_layer_idx", false, false);
  c.only("add_cross_attention", false, false);
  return hf;
}

HfModel llama_config(Config& c) {
  HfModel hf;
  Model& m = hf.model;
  c.only("model_type", "llama", nullptr);
  m.vocab = c.size("vocab_size");
  m.hidden = c.size("hidden_size");
  m.layers = c.size("num_hidden_layers");
  m.heads = c.size("num_attention_heads");
  m.kv_heads = c.size("num_key_value_heads", m.heads);
  m.head_dim = c.size("head_dim", m.hidden / m.heads);
  m.ffn = c.size("intermediate_size");
  m.tied = c.flag("tie_word_embeddings", false);
  m.bias = false;
  m.norm = Norm::rmsnorm;
  m.activation = Activation::swiglu;
  m.position = Position::rope;
  hf.sequence = c.size("max_position_embeddings");
  c.only("hidden_act", "silu", "silu");
  c.only("rope_theta", kRotaryBase, kRotaryBase);
  c.only("rope_type", "default", "default");
  c.only("rope_scaling", nullptr, nullptr);
  c.only("attention_bias", false, false);
  c.only("mlp_bias", false, false);
  c.only("rms_norm_eps", kNormEpsilon, 1e-6);
  return hf;
}

}  // namespace

HfModel read_hf_config(const std::filesystem::path& folder, HfFamily family) {
  Config config(folder / "config.json");
  HfModel model = family == HfFamily::gpt2 ? gpt2_config(config) : llama_config(config);
  config.done();
  return model;
}

std::string hf_config_text(const HfModel& hf, HfFamily family) {
  hf_tensors(hf, family);  // throws when the family cannot express the model
  const Model& m = hf.model;
  Json json;
  if (family == HfFamily::gpt2)
    json = {{"architectures", {"GPT2LMHeadModel"}},
            {"model_type", "gpt2"},
            {"vocab_size", m.vocab},
            {"n_positions", hf.sequence},
            {"n_ctx", hf.sequence},
            {"n_embd", m.hidden},
            {"n_layer", m.layers},
            {"n_head", m.heads},
            {"n_inner", m.ffn},
            {"activation_function", "gelu_new"},
            {"layer_norm_epsilon", kNormEpsilon},
            {"tie_word_embeddings", true}};
  else
    json = {{"architectures", {"LlamaForCausalLM"}},
            {"model_type", "llama"},
            {"vocab_size", m.vocab},
            {"max_position_embeddings", hf.sequence},
            {"hidden_size", m.hidden},
            {"num_hidden_layers", m.layers},
            {"num_attention_heads", m.heads},
            {"num_key_value_heads", m.kv_heads},
            {"head_dim", m.head_dim},
            {"intermediate_size", m.ffn},
            {"hidden_act", "silu"},
            {"rms_norm_eps", kNormEpsilon},
            {"rope_theta", kRotaryBase},
            {"attention_bias", false},
            {"mlp_bias", false},
            {"tie_word_embeddings", m.tied}};
  json["torch_dtype"] = "float32";
  return json.dump(2) + "\n";
}

}  // namespace trainyard
