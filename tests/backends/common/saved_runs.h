#pragma once
#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "backends/common/checkpoint_writer.h"
#include "core/checkpoint/shard_map.h"
#include "core/model/initial_weights.h"
#include "tests/core/plan/layouts.h"

namespace trainyard {

// The names of a folder's entries, sorted.
inline std::vector<std::string> names_in(const std::filesystem::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

// What a rank holds of a bucket, as if its parameters were the initial weights of seed `step`, its
// first moments twice and its second moments three times as much.
class SavedState {
 public:
  SavedState(const Job& job, const Coord& coord, std::int64_t step) {
    const InitialWeights initial(job.model, job.batch.sequence_length, step);
    const auto layouts = bucket_layouts(job, coord[Axis::pipeline], coord[Axis::tensor]);
    for (const BucketPieces& pieces : pieces_to_save(job, coord)) {
      const BucketLayout& bucket = layouts[pieces.bucket];
      std::vector<float> flat(bucket.elements, 0);
      for (const HeldRectangle& r : bucket.rectangles) initial.fill(r, flat);
      const ElementRange range = stepped_range(bucket, coord[Axis::data]);
      for (const float factor : {1, 2, 3}) {
        auto& share = shares_.emplace_back(std::make_unique<std::vector<float>>());
        for (std::int64_t i = 0; i < range.count; ++i)
          share->push_back(flat[range.first + i] * factor);
        for (const Rectangle& r : pieces.rectangles)
          pieces_.push_back({r, kCheckpointParts[static_cast<int>(factor) - 1], *share});
      }
    }
  }
  const std::vector<CheckpointPiece>& pieces() const { return pieces_; }

 private:
  std::vector<std::unique_ptr<std::vector<float>>> shares_;
  std::vector<CheckpointPiece> pieces_;
};

inline CheckpointManifest manifest_of(const Job& job, std::int64_t step) {
  CheckpointManifest manifest;
  manifest.step = step;
  manifest.program_hash = "0123456789abcdef";
  manifest.model = job.model;
  manifest.sequence = job.batch.sequence_length;
  manifest.data = {.seed = 5, .samples = 100, .epoch = 1, .position = step % 100};
  manifest.state = {{"loss_scale", 65536.0}, {"learning_rate", {{"step", step}}}};
  return manifest;
}

inline CheckpointOptions options_of(const std::filesystem::path& root, std::int32_t rank = 0,
                                    std::int32_t ranks = 1) {
  CheckpointOptions options;
  options.root = root;
  options.rank = rank;
  options.ranks = ranks;
  options.attempt = "test";
  options.keep = 100;
  return options;
}

// Saves a step with all ranks of the job, each with its own writer; returns what went wrong.
inline std::string save(const Job& job, const std::filesystem::path& root, std::int64_t step) {
  const Mesh mesh = job.mesh();
  std::vector<std::unique_ptr<CheckpointWriter>> writers;
  std::vector<SavedState> states;
  for (std::int32_t r = 0; r < mesh.size(); ++r) {
    writers.push_back(std::make_unique<CheckpointWriter>(options_of(root, r, mesh.size())));
    states.emplace_back(job, mesh.coord(RankId(r)), step);
  }
  for (std::size_t r = 0; r < writers.size(); ++r)
    writers[r]->start(manifest_of(job, step), states[r].pieces());
  std::string problems;
  for (auto& writer : writers) problems += writer->wait();
  return problems;
}

}  // namespace trainyard
