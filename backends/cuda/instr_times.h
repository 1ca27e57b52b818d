#pragma once
#include <cuda_runtime_api.h>

#include <vector>

#include "backends/cuda/gpu.h"
#include "core/program/trace_event.h"

namespace trainyard {

// When instructions of a step ran, by events around each: nothing waits for them.
class InstrTimes {
 public:
  // `origin`: the stream on which the step begins now, at `started` of the processor's clock.
  InstrTimes(cudaStream_t origin, Time started);
  // Around the enqueueing of instructions that start and end together.
  void start(cudaStream_t stream);
  void end(cudaStream_t stream, std::uint32_t first, std::uint32_t count);
  // All have ended.
  std::vector<TraceEvent> read(RankId rank) const;

 private:
  struct Span {
    std::uint32_t first, count;
    GpuEvent start, end;
  };
  Time time_of(const GpuEvent& event) const;

  GpuEvent base_;
  Time started_;
  std::vector<Span> spans_;
};

}  // namespace trainyard
