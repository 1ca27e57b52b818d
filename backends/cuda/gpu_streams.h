#pragma once
#include <cuda_runtime_api.h>

#include <array>
#include <chrono>

#include "backends/cuda/communicators.h"
#include "backends/cuda/gpu.h"
#include "core/program/program.h"

namespace trainyard {

// A CUDA stream for each stream of a program, those that carry messages before the others, and one
// for each pair of stages: transfers that start together must not wait for each other.
class GpuStreams {
 public:
  GpuStreams();
  ~GpuStreams();
  GpuStreams(const GpuStreams&) = delete;
  GpuStreams& operator=(const GpuStreams&) = delete;

  cudaStream_t of(Stream stream) const { return streams_[static_cast<std::size_t>(stream)]; }
  cudaStream_t of_pair(std::size_t pair) const { return pairs_[pair]; }
  // The stream on which a step begins and ends.
  cudaStream_t origin() const { return of(Stream::host); }

  // All other streams start what comes next after what is on the origin now, and the other way
  // round.
  void fork();
  void join();
  // What is enqueued on `later` from now on starts after what is on `earlier` now.
  void order(cudaStream_t earlier, cudaStream_t later);

  // Waits for all; false: a stream was still at work after `limit`, and uses what it was given.
  bool drain(std::chrono::milliseconds limit);

 private:
  template <class F>
  void each_other(F f) const;
  GpuEvent& next_event();

  std::array<cudaStream_t, kStreams> streams_{};
  std::array<cudaStream_t, Communicators::kPairs> pairs_{};
  // Taken in turns: what was recorded before is never needed by anybody later.
  std::array<GpuEvent, 64> events_;
  std::size_t next_ = 0;
};

}  // namespace trainyard
