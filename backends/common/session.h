#pragma once
#include <chrono>
#include <memory>
#include <string>

#include "backends/common/store.h"
#include "backends/common/worker_place.h"

namespace trainyard {

// The place with what its launcher did not tell: `store`, when not empty, goes before the
// launcher's; without both, the processes of one host meet in a folder for temporary files, under
// their parent's number if the run has no id. Throws ConfigError when the ranks of several hosts
// have no store, or no id that keeps their keys from those of other runs.
WorkerPlace with_store(WorkerPlace place, const std::string& store);

// Opens the store of this process's run, waits until all its ranks are there and returns their part
// of it, empty at first: what an earlier run left is never seen, even one of the same run id that
// was killed. Throws as open_store does, and StoreTimeout that names run, address and every rank
// that did not come ("rank 3").
std::unique_ptr<Store> open_session(const WorkerPlace& place, std::chrono::milliseconds timeout);

}  // namespace trainyard
