#include <algorithm>
#include <memory>
#include <mutex>
#include <vector>

#include "tests/cuda_on_host/machine.h"
#include "tests/cuda_on_host/nccl_comm.h"
#include "tests/cuda_on_host/runtime.h"
#include "tests/cuda_on_host/stream.h"

// Memory of the GPU that NCCL reads and writes without a copy: who registers it has to take that
// back before the communicator or the memory is gone.
namespace trainyard::cuda_on_host {
namespace {

struct Registered {
  ncclComm_t comm;
  const std::byte* first;
  std::size_t bytes;
};

struct AllRegistered {
  std::mutex mutex;
  std::vector<std::unique_ptr<Registered>> now;
};
AllRegistered& registered() {
  static auto* const of_the_process = new AllRegistered;
  return *of_the_process;
}

}  // namespace

int nccl_registrations() {
  const std::lock_guard lock(registered().mutex);
  return static_cast<int>(registered().now.size());
}

bool is_registered(const void* at, std::size_t bytes) {
  const std::lock_guard lock(registered().mutex);
  const auto* const first = static_cast<const std::byte*>(at);
  return std::ranges::any_of(registered().now, [&](const auto& r) {
    return r->first < first + bytes && first < r->first + r->bytes;
  });
}

void expect_deregistered(ncclComm_t comm) {
  const std::lock_guard lock(registered().mutex);
  if (std::erase_if(registered().now, [comm](const auto& r) { return r->comm == comm; }) > 0)
    device(current_device()).fail("a communicator of NCCL's ends that memory is registered with");
}

}  // namespace trainyard::cuda_on_host

using namespace trainyard::cuda_on_host;

ncclResult_t ncclMemAlloc(void** to, std::size_t bytes) {
  if (!machine().nccl_memory) return ncclUnhandledCudaError;
  return cudaMalloc(to, bytes) == cudaSuccess ? ncclSuccess : ncclUnhandledCudaError;
}

ncclResult_t ncclMemFree(void* memory) {
  return cudaFree(memory) == cudaSuccess ? ncclSuccess : ncclUnhandledCudaError;
}

ncclResult_t ncclCommRegister(const ncclComm_t comm, void* memory, std::size_t bytes,
                              void** handle) {
  if (!machine().nccl_registers) return ncclInvalidUsage;
  if (comm->links->state() != ncclSuccess || !is_device_memory(memory, bytes))
    return ncclInvalidArgument;
  const std::lock_guard lock(registered().mutex);
  registered().now.push_back(
      std::make_unique<Registered>(Registered{comm, static_cast<const std::byte*>(memory), bytes}));
  *handle = registered().now.back().get();
  return ncclSuccess;
}

ncclResult_t ncclCommDeregister(const ncclComm_t comm, void* handle) {
  const std::lock_guard lock(registered().mutex);
  const auto taken_back = std::erase_if(
      registered().now, [&](const auto& r) { return r.get() == handle && r->comm == comm; });
  return taken_back == 1 ? ncclSuccess : ncclInvalidArgument;
}
