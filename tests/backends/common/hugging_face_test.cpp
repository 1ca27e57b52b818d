#include "backends/common/hugging_face.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "backends/common/checkpoint_reader.h"
#include "backends/common/checkpoint_store.h"
#include "backends/common/file_writer.h"
#include "backends/common/model_json.h"
#include "backends/common/safetensors.h"
#include "tests/temporary_folder.h"

namespace trainyard {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
namespace fs = std::filesystem;

using Shapes = std::map<std::string, std::vector<std::int64_t>>;

// Names and shapes of transformers' GPT2LMHeadModel and LlamaForCausalLM, for one layer each.
Shapes gpt2_shapes() {
  return {{"transformer.wte.weight", {5, 4}},
          {"transformer.wpe.weight", {3, 4}},
          {"transformer.h.0.ln_1.weight", {4}},
          {"transformer.h.0.ln_1.bias", {4}},
          {"transformer.h.0.attn.c_attn.weight", {4, 12}},
          {"transformer.h.0.attn.c_attn.bias", {12}},
          {"transformer.h.0.attn.c_proj.weight", {4, 4}},
          {"transformer.h.0.attn.c_proj.bias", {4}},
          {"transformer.h.0.ln_2.weight", {4}},
          {"transformer.h.0.ln_2.bias", {4}},
          {"transformer.h.0.mlp.c_fc.weight", {4, 16}},
          {"transformer.h.0.mlp.c_fc.bias", {16}},
          {"transformer.h.0.mlp.c_proj.weight", {16, 4}},
          {"transformer.h.0.mlp.c_proj.bias", {4}},
          {"transformer.ln_f.weight", {4}},
          {"transformer.ln_f.bias", {4}}};
}
Shapes llama_shapes() {
  return {{"model.embed_tokens.weight", {5, 4}},
          {"model.layers.0.input_layernorm.weight", {4}},
          {"model.layers.0.self_attn.q_proj.weight", {4, 4}},
          {"model.layers.0.self_attn.k_proj.weight", {2, 4}},
          {"model.layers.0.self_attn.v_proj.weight", {2, 4}},
          {"model.layers.0.self_attn.o_proj.weight", {4, 4}},
          {"model.layers.0.post_attention_layernorm.weight", {4}},
          {"model.layers.0.mlp.gate_proj.weight", {6, 4}},
          {"model.layers.0.mlp.up_proj.weight", {6, 4}},
          {"model.layers.0.mlp.down_proj.weight", {4, 6}},
          {"model.norm.weight", {4}},
          {"lm_head.weight", {5, 4}}};
}

nlohmann::json gpt2_config() {
  return {{"model_type", "gpt2"},
          {"vocab_size", 5},
          {"n_positions", 3},
          {"n_embd", 4},
          {"n_layer", 1},
          {"n_head", 2},
          {"n_inner", nullptr},
          {"activation_function", "gelu_new"},
          {"layer_norm_epsilon", 1e-5}};
}
nlohmann::json llama_config() {
  return {{"model_type", "llama"},    {"vocab_size", 5},        {"max_position_embeddings", 8},
          {"hidden_size", 4},         {"num_hidden_layers", 1}, {"num_attention_heads", 2},
          {"num_key_value_heads", 1}, {"intermediate_size", 6}, {"hidden_act", "silu"},
          {"rms_norm_eps", 1e-5},     {"rope_theta", 10000.0},  {"tie_word_embeddings", false}};
}

// A model folder whose tensors hold 1000 * (place in the order of names) + element.
void write_model(const fs::path& folder, const nlohmann::json& config, const Shapes& shapes,
                 const std::string& file = "model.safetensors") {
  fs::create_directories(folder);
  write_file(folder / "config.json", config.dump());
  std::vector<std::vector<float>> values;
  std::vector<SafetensorsSource> sources;
  for (const auto& [name, shape] : shapes) {
    std::int64_t elements = 1;
    for (const std::int64_t size : shape) elements *= size;
    auto& v = values.emplace_back();
    for (std::int64_t i = 0; i < elements; ++i)
      v.push_back(static_cast<float>(1000 * sources.size() + i));
    sources.push_back(contiguous_source(name, DType::fp32, shape, v.data()));
  }
  FileWriter writer(folder / file);
  write_safetensors(writer, sources, {});
  writer.close();
}

float value_of(const Shapes& shapes, const std::string& name, std::int64_t element) {
  const auto place = std::distance(shapes.begin(), shapes.find(name));
  return static_cast<float>(1000 * place + element);
}

// The file's tensors, each as its values.
std::map<std::string, std::vector<float>> all_values(const fs::path& path) {
  const SafetensorsFile file(path);
  std::map<std::string, std::vector<float>> values;
  for (const auto& [name, entry] : file.entries()) values[name] = to_floats(file, entry);
  return values;
}

std::vector<float> logical(const CheckpointReader& reader, const std::string& name) {
  for (const LogicalTensor& t :
       logical_tensors(reader.manifest().model, reader.manifest().sequence)) {
    if (t.name != name) continue;
    std::vector<float> values(t.elements());
    reader.read(whole(t), "", values);
    return values;
  }
  ADD_FAILURE() << name;
  return {};
}

TEST(HuggingFace, Gpt2sFusedProjectionIsTakenApart) {
  TemporaryFolder folder;
  write_model(folder / "hf", gpt2_config(), gpt2_shapes());
  const CheckpointReader reader(import_hf(folder / "hf", HfFamily::gpt2, folder / "run"));
  EXPECT_EQ(reader.manifest().step, 0);
  const Shapes shapes = gpt2_shapes();
  const auto q = logical(reader, "layer0.q"), v = logical(reader, "layer0.v");
  // [in, out]: row 1 of the fused matrix starts at element 12; v at its column 8.
  EXPECT_EQ(q[4], value_of(shapes, "transformer.h.0.attn.c_attn.weight", 12));
  EXPECT_EQ(v[5], value_of(shapes, "transformer.h.0.attn.c_attn.weight", 12 + 8 + 1));
  EXPECT_EQ(logical(reader, "layer0.k_bias")[0],
            value_of(shapes, "transformer.h.0.attn.c_attn.bias", 4));
  EXPECT_EQ(logical(reader, "layer0.fc1")[17],
            value_of(shapes, "transformer.h.0.mlp.c_fc.weight", 17));
  const auto norm = logical(reader, "layer0.norm2");  // weight, then bias
  EXPECT_EQ(norm[1], value_of(shapes, "transformer.h.0.ln_2.weight", 1));
  EXPECT_EQ(norm[5], value_of(shapes, "transformer.h.0.ln_2.bias", 1));
}

TEST(HuggingFace, LlamasWeightsAreTransposed) {
  TemporaryFolder folder;
  write_model(folder / "hf", llama_config(), llama_shapes());
  const CheckpointReader reader(import_hf(folder / "hf", HfFamily::llama, folder / "run"));
  const Shapes shapes = llama_shapes();
  // value [in 4, out 6], stored [6, 4]: element (in 1, out 2) is 2 * 4 + 1 in the file.
  EXPECT_EQ(logical(reader, "layer0.value")[1 * 6 + 2],
            value_of(shapes, "model.layers.0.mlp.up_proj.weight", 9));
  EXPECT_EQ(logical(reader, "layer0.k")[1 * 2 + 1],
            value_of(shapes, "model.layers.0.self_attn.k_proj.weight", 5));
  EXPECT_EQ(logical(reader, "head")[7], value_of(shapes, "lm_head.weight", 7));
}

TEST(HuggingFace, ExportGivesBackWhatWasImported) {
  const std::tuple<HfFamily, nlohmann::json, Shapes> cases[] = {
      {HfFamily::gpt2, gpt2_config(), gpt2_shapes()},
      {HfFamily::llama, llama_config(), llama_shapes()}};
  for (const auto& [family, config, shapes] : cases) {
    TemporaryFolder folder;
    write_model(folder / "hf", config, shapes);
    export_hf(import_hf(folder / "hf", family, folder / "run"), family, folder / "back");
    EXPECT_EQ(all_values(folder / "back/model.safetensors"),
              all_values(folder / "hf/model.safetensors"));
    const HfModel first = read_hf_config(folder / "hf", family);
    const HfModel second = read_hf_config(folder / "back", family);
    EXPECT_THAT(model_differences(second.model, first.model), IsEmpty());
    EXPECT_EQ(checkpoint_problem(folder / "run/step-00000000"), "");
  }
}

TEST(HuggingFace, NamesWithoutTransformerAndExtraTensorsAreAccepted) {
  TemporaryFolder folder;
  Shapes shapes;
  for (const auto& [name, shape] : gpt2_shapes()) shapes[name.substr(12)] = shape;
  shapes["h.0.attn.bias"] = {1, 1, 3, 3};  // the causal mask of GPT-2's own file
  write_model(folder / "hf", gpt2_config(), shapes);
  const CheckpointReader reader(import_hf(folder / "hf", HfFamily::gpt2, folder / "run"));
  EXPECT_EQ(logical(reader, "embedding")[3], value_of(shapes, "wte.weight", 3));
}

TEST(HuggingFace, AModelMayBeInSeveralFiles) {
  TemporaryFolder folder;
  Shapes first = llama_shapes(), second;
  second["lm_head.weight"] = first["lm_head.weight"];
  first.erase("lm_head.weight");
  write_model(folder / "hf", llama_config(), first, "model-00001-of-00002.safetensors");
  write_model(folder / "hf", llama_config(), second, "model-00002-of-00002.safetensors");
  write_file(folder / "hf/model.safetensors.index.json", R"({"weight_map": {
      "model.norm.weight": "model-00001-of-00002.safetensors",
      "lm_head.weight": "model-00002-of-00002.safetensors"}})");
  const CheckpointReader reader(import_hf(folder / "hf", HfFamily::llama, folder / "run"));
  EXPECT_EQ(logical(reader, "head")[7], 7);
}

TEST(HuggingFace, MissingAndMisshapenTensorsAreNamed) {
  TemporaryFolder folder;
  Shapes shapes = gpt2_shapes();
  shapes.erase("transformer.ln_f.bias");
  write_model(folder / "hf", gpt2_config(), shapes);
  const auto import = [&] { import_hf(folder / "hf", HfFamily::gpt2, folder / "run"); };
  EXPECT_THAT(config_error_of(import), HasSubstr("no tensor \"transformer.ln_f.bias\""));
  shapes = gpt2_shapes();
  shapes["transformer.wte.weight"] = {6, 4};
  write_model(folder / "hf", gpt2_config(), shapes);
  EXPECT_THAT(config_error_of(import), HasSubstr("\"transformer.wte.weight\" has another shape"));
}

TEST(HuggingFace, SettingsThatTheEngineLacksAreAllNamed) {
  TemporaryFolder folder;
  nlohmann::json config = llama_config();
  config["rope_theta"] = 500000.0;
  config["attention_bias"] = true;
  config["rope_parameters"] = {{"rope_type", "llama3"}};
  config.erase("hidden_size");
  write_model(folder / "hf", config, {});
  EXPECT_THAT(config_error_of([&] { read_hf_config(folder / "hf", HfFamily::llama); }),
              AllOf(HasSubstr("\"rope_theta\" is 500000.0, only 10000.0"),
                    HasSubstr("\"attention_bias\" is true"),
                    HasSubstr("\"rope_type\" is \"llama3\""), HasSubstr("\"hidden_size\"")));
}

TEST(HuggingFace, AFamilyThatCannotExpressTheModelSaysWhy) {
  TemporaryFolder folder;
  write_model(folder / "hf", llama_config(), llama_shapes());
  const fs::path checkpoint = import_hf(folder / "hf", HfFamily::llama, folder / "run");
  EXPECT_THAT(config_error_of([&] { export_hf(checkpoint, HfFamily::gpt2, folder / "x"); }),
              AllOf(HasSubstr("GPT-2 cannot express"), HasSubstr("model.norm is \"rmsnorm\""),
                    HasSubstr("model.bias is false")));
  EXPECT_THAT(config_error_of([] { hf_family_of("hf-opt"); }), HasSubstr("hf-gpt2, hf-llama"));
}

}  // namespace
}  // namespace trainyard
