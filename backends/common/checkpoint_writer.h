#pragma once
#include <atomic>
#include <chrono>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "backends/common/checkpoint_store.h"
#include "core/model/logical_tensors.h"

namespace trainyard {

// A rectangle of one part of a parameter, in a flat buffer of fp32 values.
struct CheckpointPiece {
  Rectangle rectangle;
  const char* part = "";        // of kCheckpointParts
  std::span<const float> flat;  // the rectangle's offset counts from its start
};

struct CheckpointOptions {
  std::filesystem::path root;  // seen by all ranks
  std::int32_t rank = 0, ranks = 1;
  std::string attempt;  // the same on all ranks, another in every start of the run
  int keep = 3;         // newest checkpoints that stay
  bool keep_best = true;
  std::chrono::milliseconds patience{600'000};  // for the slowest rank's shard
};

// Writes checkpoints beside the training: the caller copies its state to host buffers, start()
// returns at once, and a thread writes this rank's shard. Rank 0's thread then waits for all
// shards, writes the manifest and gives the folder its name, so a checkpoint is whole or not there
// at all, whatever is killed when. Ranks meet in the file system alone.
class CheckpointWriter {
 public:
  // On every rank before any of them starts a checkpoint. Throws ConfigError when the root cannot
  // be written.
  explicit CheckpointWriter(CheckpointOptions options);
  ~CheckpointWriter();  // waits

  // Starts this rank's part of the checkpoint of manifest.step, after wait() for an earlier one.
  // The buffers must stay as they are until wait() has returned. All ranks give the same manifest,
  // whose shards are filled in here.
  void start(CheckpointManifest manifest, std::vector<CheckpointPiece> pieces);
  bool busy() const { return busy_.load(); }
  // Returns when the last start() has ended: empty, or what went wrong, in one sentence. A failure
  // leaves earlier checkpoints as they were.
  std::string wait();

 private:
  void write(CheckpointManifest manifest, const std::vector<CheckpointPiece>& pieces);
  void tell_problem(const std::filesystem::path& folder, const std::string& problem) const;
  void finish(CheckpointManifest manifest, const std::filesystem::path& folder);

  CheckpointOptions options_;
  CheckpointStore store_;
  std::thread thread_;
  std::atomic<bool> busy_{false};
  std::string problem_;
};

}  // namespace trainyard
