#pragma once
#include <cstdint>
#include <map>
#include <utility>
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
  std::int32_t island = 0, lane = 0;
};

// A chain of segments that covers [0, `iteration`] without a gap, latest first: each starts when
// the one behind it in the list ends, and could not have started earlier. Where several chains
// are possible, it keeps to the rank and stream it is on, but goes towards stage `target`.
std::vector<PathSegment> critical_path(const Scene& scene, const Executor& executor,
                                       History& history, std::int32_t target);

// How long `stage` ran kernels while a segment lasted, on the segment's island and lane.
class KernelTimes {
 public:
  KernelTimes(const Scene& scene, History& history, std::int32_t stage)
      : scene_(scene), history_(history), stage_(stage) {}
  std::int64_t within(const PathSegment& segment);

 private:
  struct Interval {
    std::int64_t start, end, before;  // ns; kernels' time before it
  };
  const std::vector<Interval>& of(std::int32_t island, std::int32_t lane);

  const Scene& scene_;
  History& history_;
  std::int32_t stage_;
  std::map<std::pair<std::int32_t, std::int32_t>, std::vector<Interval>> kept_;  // island, lane
};

// What a segment counts as when `bounding_stage` is what bounds the step.
Cause cause_of(const PathSegment& segment, const Program& program, std::int32_t bounding_stage);

}  // namespace trainyard
