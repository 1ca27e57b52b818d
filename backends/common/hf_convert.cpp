#include <fmt/core.h>

#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>

#include "backends/common/checkpoint_reader.h"
#include "backends/common/checkpoint_writer.h"
#include "backends/common/file_writer.h"
#include "backends/common/hugging_face.h"
#include "backends/common/safetensors.h"
#include "core/error.h"

namespace trainyard {
namespace {

namespace fs = std::filesystem;
using Tensors = std::map<std::string, std::vector<float>>;

constexpr const char* kSingleFile = "model.safetensors";
constexpr const char* kIndexFile = "model.safetensors.index.json";

// The safetensors files of a model folder, as one.
class HfFiles {
 public:
  explicit HfFiles(const fs::path& folder) : folder_(folder) {
    if (!fs::exists(folder / kIndexFile)) {
      files_.push_back(std::make_unique<SafetensorsFile>(folder / kSingleFile));
      return;
    }
    std::ifstream file(folder / kIndexFile);
    const auto json = nlohmann::json::parse(file, nullptr, false);
    if (!json.is_object() || !json.contains("weight_map") || !json["weight_map"].is_object())
      throw ConfigError(
          fmt::format("{}: has no object \"weight_map\"", (folder / kIndexFile).string()));
    std::set<std::string> names;
    for (const auto& [tensor, name] : json["weight_map"].items())
      if (name.is_string()) names.insert(name.get<std::string>());
    for (const std::string& name : names)
      files_.push_back(std::make_unique<SafetensorsFile>(folder / name));
  }

  // GPT-2's own files leave out the leading "transformer.".
  std::vector<float> read(const HfTensor& tensor) const {
    constexpr std::string_view kPrefix = "transformer.";
    for (const std::size_t skipped : {std::size_t{0}, kPrefix.size()}) {
      if (skipped > 0 && !tensor.name.starts_with(kPrefix)) break;
      for (const auto& file : files_) {
        const auto found = file->entries().find(tensor.name.substr(skipped));
        if (found == file->entries().end()) continue;
        if (found->second.shape != tensor.shape)
          throw ConfigError(fmt::format("{}: tensor \"{}\" has another shape than config.json says",
                                        file->path().string(), tensor.name));
        return to_floats(*file, found->second);
      }
    }
    throw ConfigError(fmt::format("{}: has no tensor \"{}\"", folder_.string(), tensor.name));
  }

 private:
  fs::path folder_;
  std::vector<std::unique_ptr<SafetensorsFile>> files_;
};

// Calls visit(element of the file's tensor, logical tensor, element of it) for every element.
template <class Visit>
void each_element(const HfTensor& t, Visit&& visit) {
  const std::int64_t rows = t.parts.front().rows;
  std::int64_t width = 0;
  for (const HfTensor::Part& part : t.parts) width += part.columns;
  std::int64_t start = 0;
  for (const HfTensor::Part& part : t.parts) {
    for (std::int64_t i = 0; i < rows; ++i)
      for (std::int64_t j = 0; j < part.columns; ++j)
        visit(t.transposed ? (start + j) * rows + i : i * width + start + j, part,
              (part.first_row + i) * part.columns + j);
    start += part.columns;
  }
}

CheckpointManifest weights_manifest(const HfModel& hf) {
  CheckpointManifest manifest;
  manifest.model = hf.model;
  manifest.sequence = hf.sequence;
  manifest.parts = {""};
  return manifest;
}

}  // namespace

fs::path import_hf(const fs::path& folder, HfFamily family, const fs::path& root) {
  const HfModel hf = read_hf_config(folder, family);
  const HfFiles files(folder);
  const auto logical = logical_tensors(hf.model, hf.sequence);
  Tensors tensors;
  for (const LogicalTensor& t : logical) tensors[t.name].resize(t.elements());
  for (const HfTensor& t : hf_tensors(hf, family)) {
    const std::vector<float> values = files.read(t);
    each_element(t, [&](std::int64_t from, const HfTensor::Part& part, std::int64_t to) {
      tensors[part.tensor][to] = values[from];
    });
  }
  CheckpointOptions options;
  options.root = root;
  options.attempt = "import";
  CheckpointWriter writer(options);
  std::vector<CheckpointPiece> pieces;
  for (const LogicalTensor& t : logical) pieces.push_back({whole(t), "", tensors[t.name]});
  writer.start(weights_manifest(hf), std::move(pieces));
  const std::string problem = writer.wait();
  if (!problem.empty()) throw std::runtime_error(problem);
  return CheckpointStore(root).folder(0);
}

void export_hf(const fs::path& checkpoint, HfFamily family, const fs::path& folder) {
  const CheckpointReader reader(checkpoint);
  const HfModel hf{reader.manifest().model, reader.manifest().sequence};
  const std::vector<HfTensor> table = hf_tensors(hf, family);
  Tensors tensors;
  for (const LogicalTensor& t : logical_tensors(hf.model, hf.sequence)) {
    tensors[t.name].resize(t.elements());
    reader.read(whole(t), "", tensors[t.name]);
  }
  std::vector<std::vector<float>> values;
  std::vector<SafetensorsSource> sources;
  for (const HfTensor& t : table) {
    std::int64_t elements = 1;
    for (const std::int64_t size : t.shape) elements *= size;
    auto& out = values.emplace_back(static_cast<std::size_t>(elements));
    each_element(t, [&](std::int64_t to, const HfTensor::Part& part, std::int64_t from) {
      out[to] = tensors[part.tensor][from];
    });
    sources.push_back(contiguous_source(t.name, DType::fp32, t.shape, out.data()));
  }
  std::error_code error;
  fs::create_directories(folder, error);
  if (error)
    throw ConfigError(fmt::format("{}: cannot be made: {}", folder.string(), error.message()));
  FileWriter weights(folder / kSingleFile);
  write_safetensors(weights, sources, {{"format", "pt"}});
  weights.close();
  FileWriter config(folder / "config.json");
  config.write(hf_config_text(hf, family));
  config.close();
}

}  // namespace trainyard
