#pragma once
#include <chrono>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backends/common/store.h"
#include "core/program/trace_event.h"

namespace trainyard {

// What a rank tells of a traced step. Hosts have clocks of their own: `mark` is a moment that is
// the same on all ranks, but for the latency between them.
struct StepTimes {
  std::string host;
  Time mark;
  std::vector<TraceEvent> events;
};

// Leaves a rank's times for gather_times(). `key`: of the step, the same on all ranks.
void leave_times(Store& store, std::string_view key, RankId rank, const StepTimes& times);

// The times of all `ranks` on the clock of `own`, by rank. Throws StoreTimeout that lists those
// that left none.
std::vector<TraceEvent> gather_times(Store& store, std::string_view key,
                                     std::span<const RankId> ranks, const StepTimes& own,
                                     std::chrono::milliseconds timeout);

// By rank, then start, with the earliest start at 0.
void order_events(std::vector<TraceEvent>& events);

}  // namespace trainyard
