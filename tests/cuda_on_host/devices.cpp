#include <cstdio>
#include <cstring>

#include "tests/cuda_on_host/machine.h"
#include "tests/cuda_on_host/runtime.h"
#include "tests/cuda_on_host/stream.h"

namespace trainyard::cuda_on_host {
namespace {

constexpr int kMostDevices = 64;

thread_local int chosen_device = 0;
thread_local cudaError_t last_error = cudaSuccess;

}  // namespace

void Device::fail(const std::string& what) {
  const std::lock_guard lock(mutex);
  if (failed) return;
  problem = what;
  failed = true;
  std::fprintf(stderr, "cuda_on_host: %s\n", what.c_str());
}

// Never destroyed: streams may outlive main().
Device& device(int number) {
  static auto* const devices = new Device[kMostDevices];
  return devices[number];
}

int current_device() { return chosen_device; }

std::string device_problem() {
  Device& d = device(chosen_device);
  const std::lock_guard lock(d.mutex);
  return d.problem;
}

}  // namespace trainyard::cuda_on_host

using namespace trainyard::cuda_on_host;

const char* cudaGetErrorName(cudaError_t code) {
  switch (code) {
    case cudaSuccess:
      return "cudaSuccess";
    case cudaErrorMemoryAllocation:
      return "cudaErrorMemoryAllocation";
    case cudaErrorInsufficientDriver:
      return "cudaErrorInsufficientDriver";
    case cudaErrorNoDevice:
      return "cudaErrorNoDevice";
    case cudaErrorInvalidDevice:
      return "cudaErrorInvalidDevice";
    case cudaErrorNotReady:
      return "cudaErrorNotReady";
    case cudaErrorLaunchFailure:
      return "cudaErrorLaunchFailure";
    case cudaErrorInvalidValue:
      return "cudaErrorInvalidValue";
    case cudaErrorIllegalAddress:
      return "cudaErrorIllegalAddress";
    default:
      return "cudaError";
  }
}

const char* cudaGetErrorString(cudaError_t code) {
  switch (code) {
    case cudaSuccess:
      return "no error";
    case cudaErrorMemoryAllocation:
      return "out of memory";
    case cudaErrorInsufficientDriver:
      return "CUDA driver version is insufficient for CUDA runtime version";
    case cudaErrorNoDevice:
      return "no CUDA-capable device is detected";
    case cudaErrorInvalidDevice:
      return "invalid device ordinal";
    case cudaErrorNotReady:
      return "device not ready";
    case cudaErrorLaunchFailure:
      return "unspecified launch failure";
    case cudaErrorInvalidValue:
      return "invalid argument";
    case cudaErrorIllegalAddress:
      return "an illegal memory access was encountered";
    case cudaErrorInvalidConfiguration:
      return "invalid configuration argument";
    case cudaErrorInvalidResourceHandle:
      return "invalid resource handle";
    case cudaErrorStreamCaptureUnsupported:
      return "operation not permitted when stream is capturing";
    case cudaErrorStreamCaptureInvalidated:
      return "operation failed due to a previous error during capture";
    case cudaErrorStreamCaptureUnmatched:
      return "capture was not begun in this stream";
    case cudaErrorStreamCaptureUnjoined:
      return "capturing stream has unjoined work";
    case cudaErrorStreamCaptureIsolation:
      return "dependency created on uncaptured work in another stream";
  }
  return "unrecognized error code";
}

cudaError_t cudaGetLastError() {
  const cudaError_t code = last_error;
  last_error = cudaSuccess;
  return code;
}

cudaError_t cudaGetDeviceCount(int* count) {
  *count = machine().devices;
  if (machine().driver < machine().runtime) return cudaErrorInsufficientDriver;
  return *count > 0 ? cudaSuccess : cudaErrorNoDevice;
}

cudaError_t cudaGetDevice(int* number) {
  *number = chosen_device;
  return cudaSuccess;
}

cudaError_t cudaSetDevice(int number) {
  if (machine().driver < machine().runtime) return cudaErrorInsufficientDriver;
  if (number < 0 || number >= machine().devices || number >= kMostDevices)
    return cudaErrorInvalidDevice;
  chosen_device = number;
  return cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* to, int number) {
  if (number < 0 || number >= machine().devices) return cudaErrorInvalidDevice;
  *to = {};
  std::strcpy(to->name, "CUDA on the host");
  to->totalGlobalMem = machine().memory;
  to->major = 9;
  to->minor = 0;
  to->multiProcessorCount = 132;
  return cudaSuccess;
}

cudaError_t cudaDriverGetVersion(int* version) {
  *version = machine().driver;
  return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = machine().runtime;
  return cudaSuccess;
}

cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total) {
  Device& d = device(chosen_device);
  const std::lock_guard lock(d.mutex);
  *total = machine().memory;
  *free = *total - d.used;
  return cudaSuccess;
}
