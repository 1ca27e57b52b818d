#include "backends/cuda/gpu_streams.h"

#include "backends/common/patience.h"
#include "backends/cuda/kernels/cuda_error.h"

namespace trainyard {
namespace {

bool computes(Stream stream) { return stream == Stream::compute || stream == Stream::host; }

}  // namespace

GpuStreams::GpuStreams() {
  int least = 0, greatest = 0;
  require(cudaDeviceGetStreamPriorityRange(&least, &greatest), "cudaDeviceGetStreamPriorityRange");
  const auto create = [](cudaStream_t& stream, int priority) {
    require(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, priority),
            "cudaStreamCreate");
  };
  for (int s = 0; s < kStreams; ++s)
    create(streams_[s], computes(static_cast<Stream>(s)) ? least : greatest);
  for (cudaStream_t& stream : pairs_) create(stream, greatest);
}

GpuStreams::~GpuStreams() {
  each_other([](cudaStream_t stream) { cudaStreamDestroy(stream); });
  cudaStreamDestroy(origin());
}

template <class F>
void GpuStreams::each_other(F f) const {
  for (cudaStream_t stream : streams_)
    if (stream != origin()) f(stream);
  for (cudaStream_t stream : pairs_) f(stream);
}

GpuEvent& GpuStreams::next_event() { return events_[next_++ % events_.size()]; }

void GpuStreams::fork() {
  const GpuEvent& event = next_event();
  require(cudaEventRecord(event.get(), origin()), "cudaEventRecord");
  each_other([&](cudaStream_t stream) {
    require(cudaStreamWaitEvent(stream, event.get(), 0), "cudaStreamWaitEvent");
  });
}

void GpuStreams::join() {
  each_other([&](cudaStream_t stream) { order(stream, origin()); });
}

void GpuStreams::order(cudaStream_t earlier, cudaStream_t later) {
  const GpuEvent& event = next_event();
  require(cudaEventRecord(event.get(), earlier), "cudaEventRecord");
  require(cudaStreamWaitEvent(later, event.get(), 0), "cudaStreamWaitEvent");
}

bool GpuStreams::drain(std::chrono::milliseconds limit) {
  const auto idle = [this] {
    bool all = cudaStreamQuery(origin()) != cudaErrorNotReady;
    each_other([&](cudaStream_t stream) { all &= cudaStreamQuery(stream) != cudaErrorNotReady; });
    return all;
  };
  Patience patience(limit);
  while (!idle()) {
    if (patience.ended()) return false;
    patience.rest();
  }
  return true;
}

}  // namespace trainyard
