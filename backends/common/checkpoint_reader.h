#pragma once
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "backends/common/checkpoint_manifest.h"
#include "backends/common/safetensors.h"
#include "core/model/logical_tensors.h"

namespace trainyard {

// Reads any rectangle of a checkpoint's tensors, whatever layout wrote it. Does not verify hashes:
// see newest_checkpoint(). Throws ConfigError naming file and tensor when something is missing.
class CheckpointReader {
 public:
  explicit CheckpointReader(std::filesystem::path checkpoint);

  const CheckpointManifest& manifest() const { return manifest_; }
  // Throws ConfigError that lists every difference between the checkpoint's model and this one;
  // `sequence`: rows of its learned positions.
  void expect(const Model& model, std::int64_t sequence) const;
  bool has(const std::string& part) const;
  // Copies the rectangle of that part (kCheckpointParts) to its place in `flat`.
  void read(const Rectangle& rectangle, const std::string& part, std::span<float> flat) const;

 private:
  // A piece of a tensor, in a shard.
  struct Source {
    const SafetensorsFile* file;
    const SafetensorsEntry* entry;
    Rectangle rectangle;
  };
  void index(const SafetensorsFile& shard);

  std::filesystem::path path_;
  CheckpointManifest manifest_;
  std::vector<std::unique_ptr<SafetensorsFile>> shards_;
  std::map<std::string, std::vector<Source>> sources_;  // by tensor and part
};

}  // namespace trainyard
