#include <cstdlib>
#include <cstring>
#include <stdexcept>

#include "tests/cuda_on_host/machine.h"
#include "tests/cuda_on_host/nccl_comm.h"
#include "tests/cuda_on_host/runtime.h"
#include "tests/cuda_on_host/stream.h"

// Device memory starts as NaN in every type of float, with a margin at either end that must stay as
// it is.
namespace trainyard::cuda_on_host {
namespace {

constexpr std::size_t kMargin = 256;
constexpr int kPoison = 0xff, kMarginByte = 0xa5;

// Pinned host memory, of all devices.
struct Pinned {
  std::mutex mutex;
  std::map<std::uintptr_t, std::size_t> memory;
};
Pinned& pinned() {
  static auto* const of_the_process = new Pinned;
  return *of_the_process;
}

bool within(const std::map<std::uintptr_t, std::size_t>& memory, const void* at,
            std::size_t bytes) {
  const auto first = reinterpret_cast<std::uintptr_t>(at);
  auto piece = memory.upper_bound(first);
  if (piece == memory.begin()) return false;
  --piece;
  return first + bytes <= piece->first + piece->second;
}

bool is_pinned(const void* at, std::size_t bytes) {
  const std::lock_guard lock(pinned().mutex);
  return within(pinned().memory, at, bytes);
}

bool margins_hold(const std::byte* first, std::size_t bytes) {
  for (std::size_t i = 0; i < kMargin; ++i)
    if (first[i] != std::byte{kMarginByte} || first[kMargin + bytes + i] != std::byte{kMarginByte})
      return false;
  return true;
}

bool from_device(cudaMemcpyKind kind) {
  return kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice;
}
bool to_device(cudaMemcpyKind kind) {
  return kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice;
}

}  // namespace

bool is_device_memory(const void* at, std::size_t bytes) {
  for (int number = 0; number < machine().devices; ++number) {
    Device& d = device(number);
    const std::lock_guard lock(d.mutex);
    if (within(d.memory, at, bytes)) return true;
  }
  return false;
}

}  // namespace trainyard::cuda_on_host

using namespace trainyard::cuda_on_host;

cudaError_t cudaMalloc(void** to, std::size_t bytes) {
  if (capture_forbids()) return cudaErrorStreamCaptureUnsupported;
  Device& d = device(current_device());
  const std::lock_guard lock(d.mutex);
  if (bytes > machine().memory - d.used) return cudaErrorMemoryAllocation;
  const std::size_t all = (bytes + 2 * kMargin + 255) / 256 * 256;
  auto* const first = static_cast<std::byte*>(std::aligned_alloc(256, all));
  if (first == nullptr) return cudaErrorMemoryAllocation;
  std::memset(first, kMarginByte, all);
  std::memset(first + kMargin, kPoison, bytes);
  *to = first + kMargin;
  d.memory[reinterpret_cast<std::uintptr_t>(*to)] = bytes;
  d.used += bytes;
  return cudaSuccess;
}

// Waits for all work on the memory's device, as CUDA's does.
cudaError_t cudaFree(void* memory) {
  if (memory == nullptr) return cudaSuccess;
  if (capture_forbids()) return cudaErrorStreamCaptureUnsupported;
  for (int number = 0; number < machine().devices; ++number) {
    Device& d = device(number);
    std::unique_lock lock(d.mutex);
    const auto piece = d.memory.find(reinterpret_cast<std::uintptr_t>(memory));
    if (piece == d.memory.end()) continue;
    const std::size_t bytes = piece->second;
    if (is_registered(memory, bytes)) {
      lock.unlock();
      d.fail("memory is freed that is registered with NCCL");
      return cudaErrorInvalidValue;
    }
    d.memory.erase(piece);
    d.used -= bytes;
    lock.unlock();
    drain(d);
    auto* const first = static_cast<std::byte*>(memory) - kMargin;
    const bool whole = margins_hold(first, bytes);
    if (!whole)
      d.fail("something wrote beside a piece of device memory of " + std::to_string(bytes) +
             " bytes");
    std::free(first);
    return whole ? cudaSuccess : cudaErrorIllegalAddress;
  }
  return cudaErrorInvalidValue;
}

cudaError_t cudaMallocHost(void** to, std::size_t bytes) {
  if (capture_forbids()) return cudaErrorStreamCaptureUnsupported;
  *to = std::malloc(bytes == 0 ? 1 : bytes);
  if (*to == nullptr) return cudaErrorMemoryAllocation;
  std::memset(*to, kPoison, bytes);
  const std::lock_guard lock(pinned().mutex);
  pinned().memory[reinterpret_cast<std::uintptr_t>(*to)] = bytes;
  return cudaSuccess;
}

cudaError_t cudaFreeHost(void* memory) {
  if (memory == nullptr) return cudaSuccess;
  const std::lock_guard lock(pinned().mutex);
  if (pinned().memory.erase(reinterpret_cast<std::uintptr_t>(memory)) == 0)
    return cudaErrorInvalidValue;
  std::free(memory);
  return cudaSuccess;
}

// Stricter than CUDA: the host's end must be pinned, or the copy is not asynchronous on a GPU.
cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
  if (bytes == 0) return cudaSuccess;
  if (to_device(kind) != is_device_memory(to, bytes)) return cudaErrorInvalidValue;
  if (from_device(kind) != is_device_memory(from, bytes)) return cudaErrorInvalidValue;
  if (!to_device(kind) && !is_pinned(to, bytes)) return cudaErrorInvalidValue;
  if (!from_device(kind) && !is_pinned(from, bytes)) return cudaErrorInvalidValue;
  enqueue(stream, [to, from, bytes] { std::memcpy(to, from, bytes); });
  return cudaSuccess;
}

cudaError_t cudaMemsetAsync(void* to, int value, std::size_t bytes, cudaStream_t stream) {
  if (bytes == 0) return cudaSuccess;
  if (!is_device_memory(to, bytes)) return cudaErrorInvalidValue;
  enqueue(stream, [to, value, bytes] { std::memset(to, value, bytes); });
  return cudaSuccess;
}

cudaError_t cudaMemcpy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind) {
  if (bytes == 0) return cudaSuccess;
  if (capture_forbids()) return cudaErrorStreamCaptureUnsupported;
  if (to_device(kind) != is_device_memory(to, bytes)) return cudaErrorInvalidValue;
  if (from_device(kind) != is_device_memory(from, bytes)) return cudaErrorInvalidValue;
  if (const cudaError_t code = cudaDeviceSynchronize(); code != cudaSuccess) return code;
  std::memcpy(to, from, bytes);
  return cudaSuccess;
}

cudaError_t cudaMemset(void* to, int value, std::size_t bytes) {
  if (bytes == 0) return cudaSuccess;
  if (capture_forbids()) return cudaErrorStreamCaptureUnsupported;
  if (!is_device_memory(to, bytes)) return cudaErrorInvalidValue;
  if (const cudaError_t code = cudaDeviceSynchronize(); code != cudaSuccess) return code;
  std::memset(to, value, bytes);
  return cudaSuccess;
}
