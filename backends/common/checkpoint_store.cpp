#include "backends/common/checkpoint_store.h"

#include <fmt/core.h>

#include <algorithm>

#include "backends/common/file_writer.h"
#include "backends/common/mapped_file.h"
#include "core/error.h"

namespace trainyard {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "step-", kUnfinished = ".step-", kRemoved = ".removed-",
                           kReplaced = ".replaced-";

// A folder that is half removed must not look like a checkpoint.
void remove_checkpoint(const fs::path& folder) {
  const fs::path hidden =
      folder.parent_path() / (std::string(kRemoved) + folder.filename().string());
  fs::rename(folder, hidden);
  fs::remove_all(hidden);
}

// A checkpoint moved out of the way of another that never came.
void restore(const fs::path& replaced, const fs::path& folder) {
  if (fs::exists(folder))
    fs::remove_all(replaced);
  else
    fs::rename(replaced, folder);
}

std::optional<double> validation_loss(const fs::path& folder) {
  try {
    return read_manifest(folder).validation_loss;
  } catch (const ConfigError&) {
    return std::nullopt;
  }
}

}  // namespace

fs::path CheckpointStore::folder(std::int64_t step) const {
  return root_ / fmt::format("{}{:08}", kPrefix, step);
}

fs::path CheckpointStore::unfinished_folder(std::int64_t step, const std::string& attempt) const {
  return root_ / fmt::format("{}{:08}.{}", kUnfinished, step, attempt);
}

void CheckpointStore::prepare() const {
  try {
    fs::create_directories(root_);
    for (const fs::directory_entry& entry : fs::directory_iterator(root_)) {
      const std::string name = entry.path().filename().string();
      if (name.starts_with(kReplaced)) restore(entry.path(), root_ / name.substr(kReplaced.size()));
      if (name.starts_with(kUnfinished) || name.starts_with(kRemoved)) fs::remove_all(entry.path());
    }
    FileWriter probe(root_ / ".probe");  // removed, as it is never closed
  } catch (const fs::filesystem_error& error) {
    throw ConfigError(fmt::format("{}: checkpoints cannot be written there: {}", root_.string(),
                                  error.code().message()));
  } catch (const std::runtime_error& error) {
    throw ConfigError(
        fmt::format("{}: checkpoints cannot be written there: {}", root_.string(), error.what()));
  }
}

void CheckpointStore::publish(std::int64_t step, const fs::path& finished) const {
  const fs::path final = folder(step);
  const fs::path old = root_ / (std::string(kReplaced) + final.filename().string());
  if (fs::exists(final)) fs::rename(final, old);
  fs::rename(finished, final);
  sync_directory(root_);
  fs::remove_all(old);
}

std::vector<fs::path> CheckpointStore::list() const {
  std::vector<fs::path> folders;
  std::error_code none;
  for (const fs::directory_entry& entry : fs::directory_iterator(root_, none))
    if (entry.path().filename().string().starts_with(kPrefix)) folders.push_back(entry.path());
  // Longer names are later steps: the number has at least eight digits.
  std::sort(folders.begin(), folders.end(), [](const fs::path& a, const fs::path& b) {
    const std::string x = a.filename().string(), y = b.filename().string();
    return std::pair(x.size(), x) > std::pair(y.size(), y);
  });
  return folders;
}

void CheckpointStore::prune(int keep, bool best) const {
  const std::vector<fs::path> folders = list();
  fs::path best_folder;
  std::optional<double> lowest;
  for (const fs::path& folder : folders) {
    const std::optional<double> loss = best ? validation_loss(folder) : std::nullopt;
    if (loss && (!lowest || *loss < *lowest)) lowest = loss, best_folder = folder;
  }
  for (std::size_t i = static_cast<std::size_t>(std::max(1, keep)); i < folders.size(); ++i)
    if (folders[i] != best_folder) remove_checkpoint(folders[i]);
}

std::string checkpoint_problem(const fs::path& checkpoint) {
  try {
    for (const ShardRecord& shard : read_manifest(checkpoint).shards) {
      const MappedFile file(checkpoint / shard.file);
      if (file.size() != shard.bytes)
        return fmt::format("{}: has {} bytes, the manifest says {}", file.path().string(),
                           file.size(), shard.bytes);
      const std::uint64_t hash = hash_bytes(file.bytes());
      if (hash != shard.hash)
        return fmt::format("{}: damaged: hash {:016x}, the manifest says {:016x}",
                           file.path().string(), hash, shard.hash);
    }
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

NewestCheckpoint newest_checkpoint(const CheckpointStore& store) {
  NewestCheckpoint newest;
  for (const fs::path& folder : store.list()) {
    const std::string problem = checkpoint_problem(folder);
    if (problem.empty()) {
      newest.path = folder;
      break;
    }
    newest.rejected.push_back(problem);
  }
  return newest;
}

}  // namespace trainyard
