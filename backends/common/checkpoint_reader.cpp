#include "backends/common/checkpoint_reader.h"

#include <fmt/core.h>

#include <algorithm>

#include "backends/common/checkpoint_pieces.h"
#include "backends/common/model_json.h"
#include "core/checkpoint/shard_map.h"
#include "core/error.h"

namespace trainyard {

CheckpointReader::CheckpointReader(std::filesystem::path checkpoint)
    : path_(std::move(checkpoint)), manifest_(read_manifest(path_)) {
  for (const ShardRecord& shard : manifest_.shards) {
    shards_.push_back(std::make_unique<SafetensorsFile>(path_ / shard.file));
    index(*shards_.back());
  }
}

void CheckpointReader::index(const SafetensorsFile& shard) {
  for (const auto& [name, entry] : shard.entries()) {
    const std::optional<NamedPiece> piece = parse_piece_name(name);
    if (!piece || entry.shape.size() != 2)
      throw ConfigError(
          fmt::format("{}: \"{}\" names no piece of a tensor", shard.path().string(), name));
    const std::int64_t rows = entry.shape[0], columns = entry.shape[1];
    // The tensor's name is not needed in the rectangle: sources are found by it.
    sources_[piece->tensor_part].push_back(
        {&shard,
         &entry,
         {"", {0, 0}, piece->first_row, piece->first_column, rows, columns, 0, columns}});
  }
}

void CheckpointReader::expect(const Model& model, std::int64_t sequence) const {
  std::vector<std::string> problems;
  for (const std::string& difference : model_differences(manifest_.model, model))
    problems.push_back(fmt::format("{}: {}", path_.string(), difference));
  if (model.position == Position::learned && manifest_.sequence != sequence)
    problems.push_back(fmt::format("{}: has learned positions for {} tokens, not {}",
                                   path_.string(), manifest_.sequence, sequence));
  if (!problems.empty()) throw ConfigError(problems);
}

bool CheckpointReader::has(const std::string& part) const {
  return std::find(manifest_.parts.begin(), manifest_.parts.end(), part) != manifest_.parts.end();
}

void CheckpointReader::read(const Rectangle& rectangle, const std::string& part,
                            std::span<float> flat) const {
  Rectangle wanted = rectangle;
  wanted.tensor.clear();
  std::int64_t copied = 0;
  const auto found = sources_.find(rectangle.tensor + part);
  if (found != sources_.end()) {
    for (const Source& source : found->second) {
      const Rectangle in = overlap(source.rectangle, wanted);
      const Rectangle out = overlap(wanted, source.rectangle);
      for (std::int64_t row = 0; row < in.rows; ++row)
        read_floats(*source.file, *source.entry, in.offset + row * in.row_stride,
                    flat.subspan(out.offset + row * out.row_stride, out.columns));
      copied += in.elements();
    }
  }
  if (copied != rectangle.elements())
    throw ConfigError(fmt::format("{}: has {} of {} elements of \"{}{}\", rows {} to {}",
                                  path_.string(), copied, rectangle.elements(), rectangle.tensor,
                                  part, rectangle.first_row, rectangle.first_row + rectangle.rows));
}

}  // namespace trainyard
