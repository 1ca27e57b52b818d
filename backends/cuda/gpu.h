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

// Memory by ncclMemAlloc() and its end.
cudaError_t allocate_by_nccl(void** to, std::size_t bytes);
cudaError_t free_by_nccl(void* memory);

// A rank's arena: one allocation for all that its programs keep and use.
class GpuMemory final : public RankMemory {
 public:
  // Throws ConfigError with what is free when it is more than the GPU has left. `shared`: messages
  // of it go to other ranks, which NCCL can map where it has allocated it.
  GpuMemory(RankId rank, std::size_t bytes, bool shared);
  std::size_t size() const override { return size_; }
  void read(std::size_t from, std::span<std::byte> to) const override;
  void write(std::size_t to, std::span<const std::byte> from) override;
  // For addresses only: a processor cannot follow them.
  std::span<std::byte> addresses() const {
    return {static_cast<std::byte*>(shared_.data() != nullptr ? shared_.data() : own_.data()),
            size_};
  }

 private:
  using NcclBytes = OwnedBytes<allocate_by_nccl, free_by_nccl>;
  std::size_t size_;
  DeviceBytes own_;
  NcclBytes shared_;
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
