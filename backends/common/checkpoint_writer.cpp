#include "backends/common/checkpoint_writer.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <cmath>

#include "backends/common/checkpoint_pieces.h"
#include "backends/common/file_writer.h"
#include "backends/common/mapped_file.h"
#include "backends/common/safetensors.h"
#include "core/error.h"

namespace trainyard {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr std::chrono::milliseconds kLook{20};

std::string shard_name(std::int32_t rank) { return fmt::format("rank-{:05}.safetensors", rank); }
// A rank's word to rank 0 that its shard is on the disk, or why it is not.
std::string word_name(std::int32_t rank) { return fmt::format("rank-{:05}.json", rank); }

SafetensorsSource source_of(const CheckpointPiece& piece) {
  const Rectangle& r = piece.rectangle;
  constexpr std::int64_t kElement = sizeof(float);
  return {piece_name(r, piece.part),
          DType::fp32,
          {r.rows, r.columns},
          reinterpret_cast<const std::byte*>(piece.flat.data() + r.offset),
          r.rows,
          r.columns * kElement,
          r.row_stride * kElement};
}

// No run can go on from numbers that are none, so they must not become the newest checkpoint.
void check_numbers(const CheckpointPiece& piece) {
  const Rectangle& r = piece.rectangle;
  for (std::int64_t row = 0; row < r.rows; ++row)
    for (const float value :
         piece.flat.subspan(static_cast<std::size_t>(r.offset + row * r.row_stride),
                            static_cast<std::size_t>(r.columns)))
      if (!std::isfinite(value))
        throw std::runtime_error(
            fmt::format("{} holds a value that is {}", piece_name(r, piece.part), std::abs(value)));
}

void write_text(const fs::path& path, const std::string& text) {
  FileWriter file(path, Durability::synced);
  file.write(text);
  file.close();
}

void write_shard(const fs::path& folder, std::int32_t rank,
                 const std::vector<CheckpointPiece>& pieces) {
  std::vector<SafetensorsSource> sources;
  sources.reserve(pieces.size());
  for (const CheckpointPiece& piece : pieces) {
    check_numbers(piece);
    sources.push_back(source_of(piece));
  }
  FileWriter file(folder / shard_name(rank), Durability::synced);
  write_safetensors(file, sources, {});
  file.close();
  const Json word = {{"bytes", file.size()}, {"hash", file.hash()}};
  write_text(folder / word_name(rank), word.dump());
}

ShardRecord record_of(const fs::path& folder, std::int32_t rank) {
  const MappedFile file(folder / word_name(rank));
  const auto* text = reinterpret_cast<const char*>(file.bytes().data());
  const Json word = Json::parse(text, text + file.size());
  if (word.contains("problem"))
    throw std::runtime_error(fmt::format("rank {}: {}", rank, word["problem"].get<std::string>()));
  return {shard_name(rank), word.at("bytes").get<std::int64_t>(),
          word.at("hash").get<std::uint64_t>()};
}

[[noreturn]] void throw_missing(const fs::path& folder, const CheckpointOptions& options) {
  std::vector<std::int32_t> missing;
  for (std::int32_t rank = 0; rank < options.ranks; ++rank)
    if (!fs::exists(folder / word_name(rank))) missing.push_back(rank);
  throw std::runtime_error(fmt::format("no shard of rank {} came within {} ms",
                                       fmt::join(missing, ", "), options.patience.count()));
}

// The ranks' words, in rank order, once all of them are there: even after one that tells of a
// problem, others still write into the folder.
std::vector<ShardRecord> collect(const fs::path& folder, const CheckpointOptions& options) {
  const auto deadline = std::chrono::steady_clock::now() + options.patience;
  std::int32_t told = 0;
  while (true) {
    while (told < options.ranks && fs::exists(folder / word_name(told))) ++told;
    if (told == options.ranks) break;
    if (std::chrono::steady_clock::now() >= deadline) throw_missing(folder, options);
    std::this_thread::sleep_for(kLook);
  }
  std::vector<ShardRecord> records;
  for (std::int32_t rank = 0; rank < options.ranks; ++rank)
    records.push_back(record_of(folder, rank));
  return records;
}

}  // namespace

CheckpointWriter::CheckpointWriter(CheckpointOptions options)
    : options_(std::move(options)), store_(options_.root) {
  check(!options_.attempt.empty() && options_.rank < options_.ranks, "attempt {} of rank {} of {}",
        options_.attempt, options_.rank, options_.ranks);
  if (options_.rank == 0) store_.prepare();
}

CheckpointWriter::~CheckpointWriter() {
  if (thread_.joinable()) thread_.join();
}

void CheckpointWriter::start(CheckpointManifest manifest, std::vector<CheckpointPiece> pieces) {
  check(!thread_.joinable(), "a checkpoint is started before the last was waited for");
  problem_.clear();
  busy_ = true;
  thread_ = std::thread([this, manifest = std::move(manifest), pieces = std::move(pieces)] {
    write(manifest, pieces);
    busy_ = false;
  });
}

std::string CheckpointWriter::wait() {
  if (thread_.joinable()) thread_.join();
  return problem_;
}

void CheckpointWriter::write(CheckpointManifest manifest,
                             const std::vector<CheckpointPiece>& pieces) {
  const fs::path folder = store_.unfinished_folder(manifest.step, options_.attempt);
  const std::int64_t step = manifest.step;
  bool others_write = options_.ranks > 1;
  try {
    fs::create_directories(folder);
    write_shard(folder, options_.rank, pieces);
    if (options_.rank > 0) return;
    others_write = false;  // or not within their patience
    finish(std::move(manifest), folder);
  } catch (const std::exception& error) {
    problem_ = fmt::format("the checkpoint of step {} was not written: {}", step, error.what());
    std::error_code ignored;
    if (others_write)
      tell_problem(folder, error.what());
    else
      fs::remove_all(folder, ignored);
  }
}

// The folder stays, since others write into it: removed under them, they would name its absence and
// not the cause. The next run's start removes it.
void CheckpointWriter::tell_problem(const fs::path& folder, const std::string& problem) const {
  std::error_code ignored;
  fs::remove(folder / shard_name(options_.rank), ignored);
  try {
    write_text(folder / word_name(options_.rank), Json{{"problem", problem}}.dump());
  } catch (const std::exception&) {
    // Rank 0 will find this rank's word missing.
  }
}

void CheckpointWriter::finish(CheckpointManifest manifest, const fs::path& folder) {
  manifest.shards = collect(folder, options_);
  for (std::int32_t rank = 0; rank < options_.ranks; ++rank) fs::remove(folder / word_name(rank));
  write_text(folder / kManifestFile, manifest_text(manifest));
  sync_directory(folder);
  store_.publish(manifest.step, folder);
  store_.prune(options_.keep, options_.keep_best);
}

}  // namespace trainyard
