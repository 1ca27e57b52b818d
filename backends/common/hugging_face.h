#pragma once
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "core/model/logical_tensors.h"

namespace trainyard {

enum class HfFamily : std::uint8_t { gpt2, llama };
// "hf-gpt2" or "hf-llama"; throws ConfigError that lists them.
HfFamily hf_family_of(std::string_view name);

// A Hugging Face model folder: config.json and model.safetensors, or several files with
// model.safetensors.index.json.
struct HfModel {
  Model model;
  std::int64_t sequence = 0;  // longest; rows of learned positions
};

// Reads config.json. Throws ConfigError naming every setting that the engine's mathematics does not
// have (another activation, scaled rotary positions, …).
HfModel read_hf_config(const std::filesystem::path& folder, HfFamily family);
// The config.json of a model; throws ConfigError when the family cannot express it.
std::string hf_config_text(const HfModel& model, HfFamily family);

// A tensor of the folder: logical tensors side by side, all rows or one of each, perhaps
// transposed. GPT-2 keeps weights [in, out] and q, k, v in one; Llama keeps [out, in], and pairs
// rotary components as the engine does.
struct HfTensor {
  struct Part {
    std::string tensor;
    std::int64_t first_row, rows, columns;
  };
  std::string name;
  std::vector<std::int64_t> shape;
  bool transposed = false;
  std::vector<Part> parts;
};

// All tensors of a model in the family's own order. Throws ConfigError when the family cannot
// express the model.
std::vector<HfTensor> hf_tensors(const HfModel& model, HfFamily family);

// Makes a checkpoint of step 0, weights only, from a model folder; returns the checkpoint's folder.
std::filesystem::path import_hf(const std::filesystem::path& folder, HfFamily family,
                                const std::filesystem::path& root);
// Writes a checkpoint's weights as a model folder.
void export_hf(const std::filesystem::path& checkpoint, HfFamily family,
               const std::filesystem::path& folder);

}  // namespace trainyard
