#pragma once
#include <array>
#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "core/data/sampler.h"
#include "core/model/model.h"

namespace trainyard {

// What is kept of a parameter, as the suffix of its name: its value (the fp32 master copy where
// there is one) and the optimizer's two moments. A checkpoint has the first, or all of them.
inline constexpr std::array<const char*, 3> kCheckpointParts{"", ".m", ".v"};

// A file of a checkpoint as it was when it was written.
struct ShardRecord {
  std::string file;
  std::int64_t bytes = 0;
  std::uint64_t hash = 0;  // XXH64
};

// The file that makes a folder of shards a checkpoint. It is written last and ends with its own
// hash.
struct CheckpointManifest {
  std::int64_t step = 0;
  std::string program_hash;
  Model model;
  std::int64_t sequence = 0;  // rows of learned positions
  std::vector<std::string> parts{kCheckpointParts.begin(), kCheckpointParts.end()};
  std::vector<ShardRecord> shards;
  SamplerState data;
  std::optional<double> validation_loss;
  nlohmann::ordered_json state = nlohmann::ordered_json::object();  // the trainer's: loss scale, …
};

inline constexpr const char* kManifestFile = "manifest.json";

std::string manifest_text(const CheckpointManifest& manifest);
// Reads the manifest of a checkpoint folder. Throws ConfigError naming the file and what is wrong.
CheckpointManifest read_manifest(const std::filesystem::path& checkpoint);

}  // namespace trainyard
