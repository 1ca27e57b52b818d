#pragma once
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "backends/common/checkpoint_manifest.h"

namespace trainyard {

// The folder under which a run's checkpoints lie, one a folder: step-00000100. Names that start
// with a dot are being written or removed; nobody reads them.
class CheckpointStore {
 public:
  explicit CheckpointStore(std::filesystem::path root) : root_(std::move(root)) {}

  const std::filesystem::path& root() const { return root_; }
  std::filesystem::path folder(std::int64_t step) const;
  // Where the ranks of one attempt at a step write. Attempts of a restarted run must not meet.
  std::filesystem::path unfinished_folder(std::int64_t step, const std::string& attempt) const;

  // Creates the root and removes what an ended run left unfinished. For one rank, before any other
  // writes. Throws ConfigError when the root cannot be written.
  void prepare() const;
  // Gives a finished folder its name, durably. A checkpoint of the same step (of a run that was set
  // back) is there until the new one is.
  void publish(std::int64_t step, const std::filesystem::path& finished) const;
  // Folders by name, newest step first. Not verified.
  std::vector<std::filesystem::path> list() const;
  // Removes all but the newest `keep` and, if `best`, the one with the lowest validation loss.
  void prune(int keep, bool best) const;

 private:
  std::filesystem::path root_;
};

// The first thing wrong with a checkpoint, as a sentence that names the file; empty when every
// file is there with the right size and hash. Reads all of it.
std::string checkpoint_problem(const std::filesystem::path& checkpoint);

// The newest checkpoint that is whole, and why newer ones are not.
struct NewestCheckpoint {
  std::filesystem::path path;  // empty: there is none
  std::vector<std::string> rejected;
};
NewestCheckpoint newest_checkpoint(const CheckpointStore& store);

}  // namespace trainyard
