#pragma once
#include <chrono>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "backends/common/batch_ring.h"
#include "backends/common/dataset.h"
#include "core/data/sampler.h"
#include "core/types.h"

namespace trainyard {

// How a node's batches are made and shared; the same in all its processes.
struct LoaderShape {
  std::int64_t global_rows = 1;  // sequences of a step, all data ranks together
  std::int32_t data_ranks = 1;
  std::vector<std::int32_t> node_data_ranks{0};  // those that have a process on this node
  std::int32_t processes = 1;                    // of this node that use batches
  std::int32_t queued = 2;                       // batches read ahead
};

// Reads batches of the training split ahead of their use, in a thread of one process of the node.
class BatchReader {
 public:
  // `dataset` must outlive the reader; `first`: the first batch's samples.
  BatchReader(const Dataset& dataset, const SamplerState& first, LoaderShape shape);
  ~BatchReader();
  // For the loaders of this node.
  const std::string& address() const { return ring_.address(); }

 private:
  void run();
  void fill(std::span<std::int32_t> batch);

  const Dataset& dataset_;
  SamplerState state_;
  LoaderShape shape_;
  BatchRing ring_;
  std::thread thread_;
};

// One process's view of its node's batches.
class Loader {
 public:
  struct Place {
    std::int32_t process = 0;    // of LoaderShape::processes, each its own
    std::int32_t data_rank = 0;  // one of node_data_ranks
  };
  // `first` as the reader's. Throws std::runtime_error when the reader cannot be reached.
  Loader(const std::string& address, const LoaderShape& shape, Place place,
         const SamplerState& first);

  // This data rank's rows of the next batch, [rows, sequence + 1], valid until the next call.
  // Throws ConfigError for unusable data, std::runtime_error when the reader has gone or `timeout`
  // has passed.
  std::span<const std::int32_t> next(std::chrono::milliseconds timeout);

  // Where the batch after the last returned one starts: what a checkpoint keeps.
  const SamplerState& state() const { return state_; }
  std::int64_t batches() const { return batches_; }
  Time waited() const { return waited_; }  // in next(), for batches that were not there yet

 private:
  LoaderShape shape_;
  Place place_;
  SamplerState state_;
  BatchRing ring_;
  std::int64_t batches_ = 0;
  Time waited_;
};

}  // namespace trainyard
