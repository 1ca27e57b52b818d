#include <algorithm>

#include "tests/cuda_on_host/machine.h"
#include "tests/cuda_on_host/runtime.h"
#include "tests/cuda_on_host/stream.h"

using namespace trainyard::cuda_on_host;

void CUstream_st::push(Work work) {
  const std::lock_guard lock(pushing);
  last->next = std::make_unique<Item>(std::move(work), nullptr);
  last = last->next.get();
  pushed.raise(pushed.count() + 1);
}

void CUstream_st::run() {
  for (;;) {
    pushed.await(ended.count() + 1);
    first = std::move(first->next);
    if (!first->work) return;
    first->work();
    first->work = nullptr;
    ended.raise(ended.count() + 1);
  }
}

namespace trainyard::cuda_on_host {
namespace {

CUstream_st* make_stream(int on, int number) {
  auto* const stream = new CUstream_st;
  stream->device = on;
  stream->number = number;
  if (number == machine().slow_stream) stream->slow_us = machine().slow_us;
  stream->thread = std::thread([stream] { stream->run(); });
  return stream;
}

cudaError_t state_of(int number) {
  return device(number).failed ? cudaErrorLaunchFailure : cudaSuccess;
}

}  // namespace

CUstream_st* resolve(cudaStream_t stream) {
  if (stream != nullptr) return stream;
  Device& d = device(current_device());
  const std::lock_guard lock(d.mutex);
  if (d.usual == nullptr) d.usual = make_stream(current_device(), -1);
  return d.usual;
}

Work guarded(CUstream_st* stream, Work work) {
  return [stream, works = machine().works, work = std::move(work)] {
    Device& d = device(stream->device);
    if (d.failed || !works) return;
    if (stream->slow_us > 0)
      std::this_thread::sleep_for(std::chrono::microseconds(stream->slow_us));
    try {
      work();
    } catch (const std::exception& error) {
      d.fail(error.what());
    }
  };
}

void drain(Device& d) {
  std::vector<CUstream_st*> all;
  {
    const std::lock_guard lock(d.mutex);
    all = d.living;
    if (d.usual != nullptr) all.push_back(d.usual);
  }
  for (CUstream_st* stream : all) stream->drain();
}

void enqueue(cudaStream_t handle, Work work) {
  CUstream_st* const stream = resolve(handle);
  Work item = guarded(stream, std::move(work));
  if (stream->capture) {
    stream->capture->append({CapturedOp::Kind::work, stream, std::move(item)});
  } else {
    note_work(*stream);
    stream->push(std::move(item));
  }
}

}  // namespace trainyard::cuda_on_host

cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  *least = 0;
  *greatest = -5;
  return cudaSuccess;
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned, int) {
  Device& d = device(current_device());
  const std::lock_guard lock(d.mutex);
  *stream = make_stream(current_device(), d.streams++);
  d.living.push_back(*stream);
  return cudaSuccess;
}

cudaError_t cudaStreamCreate(cudaStream_t* stream) {
  return cudaStreamCreateWithPriority(stream, 0, 0);
}

// Waits for the stream's work, which a GPU would go on with.
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  Device& d = device(stream->device);
  {
    const std::lock_guard lock(d.mutex);
    std::erase(d.living, stream);
    if (d.living.empty()) d.streams = 0;
  }
  stream->push(nullptr);
  stream->thread.join();
  delete stream;
  return cudaSuccess;
}

cudaError_t cudaStreamQuery(cudaStream_t handle) {
  CUstream_st* const stream = resolve(handle);
  if (stream->capture) {
    stream->capture->invalid = true;
    return cudaErrorStreamCaptureUnsupported;
  }
  if (const cudaError_t state = state_of(stream->device); state != cudaSuccess) return state;
  return stream->idle() ? cudaSuccess : cudaErrorNotReady;
}

cudaError_t cudaStreamSynchronize(cudaStream_t handle) {
  CUstream_st* const stream = resolve(handle);
  if (stream->capture) {
    stream->capture->invalid = true;
    return cudaErrorStreamCaptureUnsupported;
  }
  stream->drain();
  return state_of(stream->device);
}

cudaError_t cudaDeviceSynchronize() {
  if (capture_forbids()) return cudaErrorStreamCaptureUnsupported;
  drain(device(current_device()));
  return state_of(current_device());
}

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void* data) {
  enqueue(stream, [function, data] { function(data); });
  return cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  *event = new CUevent_st;
  (*event)->timed = (flags & cudaEventDisableTiming) == 0;
  return cudaSuccess;
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  delete event;
  return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t handle) {
  return cudaEventRecordWithFlags(event, handle, 0);
}

cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t handle, unsigned flags) {
  CUstream_st* const stream = resolve(handle);
  if (const auto& capture = stream->capture) {
    if (flags == cudaEventRecordExternal) {
      event->record = std::make_shared<EventRecord>();
      capture->append({CapturedOp::Kind::record, stream, nullptr, 0, event->record});
      return cudaSuccess;
    }
    event->mark = capture->marks++;
    capture->append({CapturedOp::Kind::mark, stream, nullptr, event->mark});
    event->capture = capture;
    event->order = capture->orders[stream];
    return cudaSuccess;
  }
  event->capture = nullptr;
  event->known = stream->known;
  event->record = std::make_shared<EventRecord>();
  stream->push([record = event->record] { record->reach(); });
  return cudaSuccess;
}

cudaError_t cudaStreamWaitEvent(cudaStream_t handle, cudaEvent_t event, unsigned) {
  CUstream_st* const stream = resolve(handle);
  if (event->capture != nullptr) {
    const auto capture = event->capture;
    if (stream->capture != nullptr && stream->capture != capture) return cudaErrorInvalidValue;
    stream->capture = capture;
    for (const auto& [other, count] : event->order) {
      std::size_t& known = capture->orders[stream][other];
      known = std::max(known, count);
    }
    capture->append({CapturedOp::Kind::await, stream, nullptr, event->mark});
    return cudaSuccess;
  }
  if (stream->capture != nullptr) {
    stream->capture->invalid = true;
    return cudaErrorStreamCaptureIsolation;
  }
  merge(stream->known, event->known);
  if (event->record) stream->push([record = event->record] { record->reached.await(1); });
  return cudaSuccess;
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
  const cudaError_t state = state_of(current_device());
  if (state != cudaSuccess) return state;
  return !event->record || event->record->reached.reached(1) ? cudaSuccess : cudaErrorNotReady;
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  if (event->record) event->record->reached.await(1);
  return state_of(current_device());
}

cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t start, cudaEvent_t end) {
  if (!start->timed || !end->timed || !start->record || !end->record)
    return cudaErrorInvalidResourceHandle;
  if (!start->record->reached.reached(1) || !end->record->reached.reached(1))
    return cudaErrorNotReady;
  *milliseconds =
      std::chrono::duration<float, std::milli>(end->record->time - start->record->time).count();
  return cudaSuccess;
}
