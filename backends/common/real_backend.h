#pragma once
#include <cstddef>
#include <memory>
#include <span>

#include "backends/common/processor_binding.h"
#include "backends/common/rank_memory.h"
#include "backends/common/store.h"
#include "core/config/job.h"
#include "core/engine/backend.h"

namespace trainyard {

// A backend that does the mathematics of one rank, in one process.
class RealBackend : public Backend {
 public:
  // Where the buffers of this rank's programs are. Those that persist keep their places and their
  // contents from step to step.
  virtual RankMemory& memory() = 0;
  // Replaces each value by its sum over all ranks, for what ranks agree on between steps. All ranks
  // call it in the same order with as many values. Throws std::runtime_error naming the missing
  // rank.
  virtual void sum_over_ranks(std::span<double> values) = 0;
};

// What a real backend is made from.
struct RealBackendOptions {
  RankId rank{};
  Store* store = nullptr;    // by which ranks connect; outlives connect()
  bool one_host = true;      // all ranks share this host
  std::int32_t place = 0;    // among the ranks of this host: the number of its GPU
  std::string interface;     // network interface between hosts; empty: that of the host's name
  std::int32_t threads = 1;  // for kernels
  Processors processors;     // that the rank keeps to; empty: not bound
  Bytes memory;              // for all programs that will be submitted
};

}  // namespace trainyard
