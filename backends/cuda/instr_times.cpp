#include "backends/cuda/instr_times.h"

#include <algorithm>
#include <cmath>
#include <span>

#include "backends/cuda/kernels/cuda_error.h"
#include "core/error.h"

namespace trainyard {

InstrTimes::InstrTimes(std::size_t instructions)
    : base_(GpuEvent::Use::time), spans_(instructions) {}

void InstrTimes::begin(cudaStream_t origin, Time started) {
  started_ = started;
  require(cudaEventRecord(base_.get(), origin), "cudaEventRecord");
}

void InstrTimes::start(cudaStream_t stream) {
  check(used_ < spans_.size(), "a step of more than {} instructions", spans_.size());
  require(cudaEventRecord(spans_[used_++].start.get(), stream), "cudaEventRecord");
}

void InstrTimes::end(cudaStream_t stream, std::uint32_t first, std::uint32_t count) {
  Span& span = spans_[used_ - 1];
  span.first = first;
  span.count = count;
  require(cudaEventRecord(span.end.get(), stream), "cudaEventRecord");
}

Time InstrTimes::time_of(const GpuEvent& event) const {
  float milliseconds = 0;
  require(cudaEventElapsedTime(&milliseconds, base_.get(), event.get()), "cudaEventElapsedTime");
  return started_ + nanoseconds(std::llround(static_cast<double>(milliseconds) * 1e6));
}

std::vector<TraceEvent> InstrTimes::read(RankId rank) const {
  std::vector<TraceEvent> events;
  for (const Span& span : std::span(spans_).first(used_)) {
    const Time start = time_of(span.start), end = time_of(span.end);
    for (std::uint32_t i = span.first; i < span.first + span.count; ++i)
      events.push_back({rank, i, start, end});
  }
  std::ranges::sort(events, {}, &TraceEvent::instr);
  return events;
}

}  // namespace trainyard
