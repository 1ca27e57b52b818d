#pragma once
#include <cuda_runtime_api.h>

#include <vector>

#include "backends/cuda/gpu.h"
#include "core/program/trace_event.h"

namespace trainyard {

// When instructions of a step ran, by events around each: nothing waits for them.
class InstrTimes {
 public:
  // Makes the events of so many instructions: made in the step, they would be among what it times.
  explicit InstrTimes(std::size_t instructions);
  // `origin`: the stream on which the step begins now, at `started` of the processor's clock.
  void begin(cudaStream_t origin, Time started);
  // Around the enqueueing of instructions that start and end together.
  void start(cudaStream_t stream);
  void end(cudaStream_t stream, std::uint32_t first, std::uint32_t count);
  // All have ended.
  std::vector<TraceEvent> read(RankId rank) const;

 private:
  struct Span {
    std::uint32_t first = 0, count = 0;
    GpuEvent start{GpuEvent::Use::time}, end{GpuEvent::Use::time};
  };
  Time time_of(const GpuEvent& event) const;

  GpuEvent base_;
  Time started_;
  std::vector<Span> spans_;
  std::size_t used_ = 0;  // of spans_, the one of start() not yet ended among them
};

}  // namespace trainyard
