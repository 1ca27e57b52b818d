#pragma once
#include <cstddef>
#include <optional>
#include <vector>

#include "backends/common/checkpoint_reader.h"
#include "backends/common/checkpoint_writer.h"
#include "backends/common/rank_memory.h"
#include "core/checkpoint/shard_map.h"
#include "core/config/job.h"
#include "core/model/initial_weights.h"
#include "core/plan/parameter_layout.h"
#include "core/program/program.h"

namespace trainyard {

// The parameters and optimizer state of one rank, where its program keeps them in memory.
class RankState {
 public:
  // `memory` holds the program's persistent buffers and outlives this.
  RankState(const Job& job, const Program& program, const Coord& coord, RankMemory& memory);

  // Parameters as `weights` has them, moments and padding zero.
  void start(const InitialWeights& weights);
  // The state that any layout of the same model saved. `moments`: false for a checkpoint without.
  void load(const CheckpointReader& reader, bool moments);

  // What this rank contributes to a checkpoint, in buffers of this object that stay as they are
  // until the next call. fp32; weights from the master copy where there is one.
  std::vector<CheckpointPiece> save();

  // XXH64 of the parameters and optimizer state that all members of the rank's group hold (data,
  // tensor, or embedding: the tied table); nothing: they hold nothing in common.
  std::optional<std::uint64_t> replica_hash(Group group) const;

  // All values of the rank's parameters as the forward pass reads them, bucket by bucket.
  std::vector<std::vector<float>> parameters() const;
  const std::vector<BucketLayout>& buckets() const { return layouts_; }

 private:
  // A flat buffer of the program; no bytes where the program has none that persists.
  struct Flat {
    std::size_t place = 0, bytes = 0;
    DType dtype = DType::fp32;
    bool empty() const { return bytes == 0; }
  };
  std::vector<std::byte> contents(const Flat& flat) const;
  struct Bucket {
    Flat params, param_shard, master, moment1, moment2;
  };
  Flat find(const std::string& name) const;
  void append_common(std::size_t bucket, Group group, std::vector<std::byte>& to) const;
  template <class Fill>
  void fill(const Fill& values_of);
  ElementRange stepped(std::size_t bucket) const;

  const Program& program_;
  std::int32_t replica_;
  RankMemory& memory_;
  std::vector<BucketLayout> layouts_;
  std::vector<Bucket> buckets_;
  std::vector<BucketPieces> to_save_;
  std::vector<std::vector<float>> copies_;  // of to_save_, three parts each
};

}  // namespace trainyard
