#pragma once
#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "backends/common/processor_binding.h"
#include "backends/common/store.h"
#include "core/types.h"

namespace trainyard {

// What tells hosts apart, containers and network namespaces of one machine included.
std::string host_identity();

// What a rank says of itself when it comes.
struct Arrival {
  std::string host;
  std::string program;    // hash of the programs it is about to run
  Processors processors;  // that it may run on
};

// What each of the run's `ranks`, which open_session() has brought together, says of itself. Throws
// StoreTimeout that lists "rank/N" of those that fell silent.
std::vector<Arrival> meet(Store& store, RankId rank, std::int32_t ranks, const Arrival& own,
                          std::chrono::milliseconds timeout);

}  // namespace trainyard
