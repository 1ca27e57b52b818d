#include "tests/cuda_on_host/launch.h"

#include <map>
#include <memory>
#include <mutex>

#include "tests/cuda_on_host/stream.h"

namespace trainyard::cuda_on_host {
namespace {

// What every kernel may have, and what the smaller of the architectures built for (8.0) allows.
constexpr std::size_t kUsual = 48 * 1024, kMost = 163 * 1024;

struct Allowed {
  std::mutex mutex;
  std::map<const void*, std::size_t> bytes;
};

Allowed& allowed() {
  static Allowed of_the_process;
  return of_the_process;
}

std::size_t allowed_bytes(const void* kernel) {
  Allowed& a = allowed();
  const std::lock_guard lock(a.mutex);
  const auto found = a.bytes.find(kernel);
  return found == a.bytes.end() ? kUsual : found->second;
}

bool runs(const cudaLaunchConfig_t& c) {
  const std::uint64_t threads = std::uint64_t{c.blockDim.x} * c.blockDim.y * c.blockDim.z;
  return threads > 0 && threads <= 1024 && c.gridDim.x > 0 && c.gridDim.x <= 0x7fffffffU &&
         c.gridDim.y > 0 && c.gridDim.y <= 65535 && c.gridDim.z > 0 && c.gridDim.z <= 65535;
}

}  // namespace

cudaError_t allow_shared_bytes(const void* kernel, int bytes) {
  if (bytes < 0 || static_cast<std::size_t>(bytes) > kMost) return cudaErrorInvalidValue;
  Allowed& a = allowed();
  const std::lock_guard lock(a.mutex);
  a.bytes[kernel] = static_cast<std::size_t>(bytes);
  return cudaSuccess;
}

cudaError_t launch(const void* kernel, const cudaLaunchConfig_t& config,
                   std::function<void()> thread) {
  if (config.dynamicSmemBytes > allowed_bytes(kernel)) return cudaErrorInvalidValue;
  if (!runs(config)) return cudaErrorInvalidConfiguration;
  const Grid grid{config.gridDim, config.blockDim, config.dynamicSmemBytes};
  enqueue(config.stream, [grid, thread = std::move(thread)] { run_grid(grid, thread); });
  return cudaSuccess;
}

}  // namespace trainyard::cuda_on_host
