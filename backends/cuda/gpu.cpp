#include "backends/cuda/gpu.h"

#include <fmt/format.h>
#include <nccl.h>

#include "backends/cuda/kernels/cuda_error.h"
#include "core/error.h"

namespace trainyard {
namespace {

constexpr int kOldestMajor = 8;  // A100; kernels are compiled for 8.0 and 9.0, later ones from PTX

std::string version_text(int version) {
  return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

}  // namespace

void choose_gpu(std::int32_t number) {
  int driver = 0, runtime = 0, count = 0;
  require(cudaDriverGetVersion(&driver), "cudaDriverGetVersion");
  require(cudaRuntimeGetVersion(&runtime), "cudaRuntimeGetVersion");
  if (driver == 0) throw ConfigError("this host has no NVIDIA driver, or no GPU");
  if (driver / 1000 < runtime / 1000)
    throw ConfigError(
        fmt::format("this host's NVIDIA driver supports CUDA {}, this build needs {}: install a "
                    "newer driver, or build with an older CUDA",
                    version_text(driver), version_text(runtime)));
  const cudaError_t found = cudaGetDeviceCount(&count);
  if (found == cudaErrorNoDevice || (found == cudaSuccess && count == 0))
    throw ConfigError("this host has no GPU that CUDA can use");
  require(found, "cudaGetDeviceCount");
  if (number < 0 || number >= count)
    throw ConfigError(
        fmt::format("GPU {} is asked for, but this host has {} (0 to {}): start at most {} ranks "
                    "on it, or look at CUDA_VISIBLE_DEVICES",
                    number, count, count - 1, count));
  cudaDeviceProp about{};
  require(cudaGetDeviceProperties(&about, number), "cudaGetDeviceProperties");
  if (about.major < kOldestMajor)
    throw ConfigError(
        fmt::format("GPU {} ({}) has compute capability {}.{}; at least {}.0 is needed", number,
                    about.name, about.major, about.minor, kOldestMajor));
  require(cudaSetDevice(number), "cudaSetDevice");
}

cudaError_t allocate_by_nccl(void** to, std::size_t bytes) {
  return ncclMemAlloc(to, bytes) == ncclSuccess ? cudaSuccess : cudaErrorMemoryAllocation;
}

cudaError_t free_by_nccl(void* memory) {
  return ncclMemFree(memory) == ncclSuccess ? cudaSuccess : cudaErrorInvalidValue;
}

// NCCL's allocations are of whole granules, of 2 MiB and more: what does not fit in them may fit
// without.
GpuMemory::GpuMemory(RankId rank, std::size_t bytes, bool shared) : size_(bytes) {
  std::size_t free = 0, total = 0;
  require(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
  if (shared) try {
      shared_ = NcclBytes(bytes);
      if (shared_.data() != nullptr) return;
    } catch (const CudaError&) {
      cudaGetLastError();  // no later call is to take it for its own
    }
  try {
    own_ = DeviceBytes(bytes);
  } catch (const CudaError& error) {
    throw ConfigError(fmt::format(
        "rank {} needs {:.2f} GiB of GPU memory, of {:.2f} GiB there are {:.2f} free ({}); "
        "trainyard plan shows what takes it",
        index(rank), static_cast<double>(bytes) / kGiB, static_cast<double>(total) / kGiB,
        static_cast<double>(free) / kGiB, error.what()));
  }
}

void GpuMemory::read(std::size_t from, std::span<std::byte> to) const {
  const auto source = addresses().subspan(from, to.size());
  require(cudaMemcpy(to.data(), source.data(), to.size(), cudaMemcpyDeviceToHost),
          "cudaMemcpy from the GPU");
}

void GpuMemory::write(std::size_t to, std::span<const std::byte> from) {
  const auto target = addresses().subspan(to, from.size());
  require(cudaMemcpy(target.data(), from.data(), from.size(), cudaMemcpyHostToDevice),
          "cudaMemcpy to the GPU");
}

GpuEvent::GpuEvent(Use use) {
  require(cudaEventCreateWithFlags(&event_, use == Use::order ? cudaEventDisableTiming : 0),
          "cudaEventCreate");
}

GpuEvent::~GpuEvent() {
  if (event_ != nullptr) cudaEventDestroy(event_);
}

}  // namespace trainyard
