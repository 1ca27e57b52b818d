#pragma once
#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <span>

#include "backends/common/rank_memory.h"
#include "backends/cuda/kernels/owned_bytes.h"
#include "core/types.h"

namespace trainyard {

// Makes the host's GPU of this number the calling thread's. Throws ConfigError when the driver is
// older than the runtime, when there is no such GPU, or when it is older than those built for.
void choose_gpu(std::int32_t number);

// A rank's arena: one allocation for all that its programs keep and use.
class GpuMemory final : public RankMemory {
 public:
  // Throws ConfigError with what is free when it is more than the GPU has left.
  GpuMemory(RankId rank, std::size_t bytes);
  std::size_t size() const override { return arena_.size(); }
  void read(std::size_t from, std::span<std::byte> to) const override;
  void write(std::size_t to, std::span<const std::byte> from) override;
  // For addresses only: a processor cannot follow them.
  std::span<std::byte> addresses() const {
    return {static_cast<std::byte*>(arena_.data()), arena_.size()};
  }

 private:
  DeviceBytes arena_;
};

class GpuEvent {
 public:
  enum class Use : std::uint8_t { order, time };
  explicit GpuEvent(Use use = Use::order);
  ~GpuEvent();
  GpuEvent(GpuEvent&& other) noexcept : event_(other.event_) { other.event_ = nullptr; }
  GpuEvent& operator=(GpuEvent&& other) noexcept {
    std::swap(event_, other.event_);
    return *this;
  }
  cudaEvent_t get() const { return event_; }

 private:
  cudaEvent_t event_ = nullptr;
};

}  // namespace trainyard
