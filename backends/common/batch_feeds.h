#pragma once
#include <array>
#include <chrono>
#include <memory>
#include <vector>

#include "backends/common/dataset.h"
#include "backends/common/loader.h"
#include "backends/common/store.h"
#include "core/config/job.h"
#include "core/engine/backend.h"

namespace trainyard {

// Rows of a batch that count in the loss.
std::int64_t count_targets(std::span<const std::int32_t> rows, std::int64_t sequence);

// Throws ConfigError when the job names no data or unusable data.
Dataset open_dataset(const Job& job);

// The training batches of one rank, from the loader its node shares.
class TrainingFeed final : public BatchFeed {
 public:
  struct Node {
    std::int32_t first_rank = 0;        // of the node: it reads for all
    std::vector<RankId> reading_ranks;  // of the node, those whose programs load tokens
  };
  // `first_step` and `first` tell which batch comes first. One process of the node reads; the
  // others find it in the store. Throws std::runtime_error when it does not come in time.
  TrainingFeed(const Job& job, const Dataset& dataset, RankId rank, const Node& node, Store* store);
  // Starts with the batch of `step`, which has the samples that follow `state`.
  void start(std::int64_t step, const SamplerState& state);

  std::span<const std::int32_t> batch(std::int64_t step) override;
  Time waited() const { return loader_ ? loader_->waited() : Time{}; }

 private:
  const Job& job_;
  const Dataset& dataset_;
  RankId rank_;
  Node node_;
  Store* store_;
  std::unique_ptr<BatchReader> reader_;
  std::unique_ptr<Loader> loader_;
  std::int64_t next_ = 0;
  std::array<std::vector<std::int32_t>, 2> rows_;  // of the two newest batches, by parity
};

// Validation batches in order: batch i has the samples from i * global_sequences on; those from
// `sequences` on are padding.
class ValidationFeed final : public BatchFeed {
 public:
  ValidationFeed(const Job& job, const Dataset& dataset, std::int32_t data_rank,
                 std::int64_t sequences);
  std::span<const std::int32_t> batch(std::int64_t step) override;

 private:
  const Dataset& dataset_;
  std::int64_t global_rows_, sequences_;
  RowRange own_;
  std::vector<std::int32_t> rows_;
};

}  // namespace trainyard
