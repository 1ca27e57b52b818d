#pragma once
#include <cstdint>
#include <vector>

#include "simulator/executor.h"
#include "simulator/history.h"
#include "simulator/scene.h"
#include "simulator/simulation.h"

namespace trainyard {

// A piece of the critical path: an instruction, or the host's way to its issue.
struct PathSegment {
  enum class Kind : std::uint8_t { instruction, launch, late } kind{};
  std::int32_t stage = 0;
  std::uint32_t instr = kNone;
  std::int64_t from = 0, to = 0;  // ns
  std::int64_t excess = 0;        // of it, due to a disturbance
};

// A chain of segments that covers [0, `iteration`] without a gap, latest first: each starts when
// the one behind it in the list ends, and could not have started earlier. Where several chains
// are possible, it keeps to the rank and stream it is on, but goes towards stage `target`.
std::vector<PathSegment> critical_path(const Scene& scene, const Executor& executor,
                                       History& history, std::int32_t target);

// What a segment counts as when `bounding_stage` is what bounds the step.
Cause cause_of(const PathSegment& segment, const Program& program, std::int32_t bounding_stage);

}  // namespace trainyard
