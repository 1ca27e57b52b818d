#pragma once
#include <cuda_runtime_api.h>

#include <functional>
#include <string>

namespace trainyard::cuda_on_host {

// Puts work on a stream, or into the graph that the stream is captured into. Work that throws fails
// the device for good, as a kernel does that touches memory it may not touch.
void enqueue(cudaStream_t stream, std::function<void()> work);

// What failed on the calling thread's device; empty: nothing has.
std::string device_problem();

// Whether all of the bytes are in one piece of the memory of some device.
bool is_device_memory(const void* at, std::size_t bytes);

}  // namespace trainyard::cuda_on_host
