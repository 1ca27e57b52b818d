#include <algorithm>
#include <set>

#include "tests/cuda_on_host/runtime.h"
#include "tests/cuda_on_host/stream.h"

namespace trainyard::cuda_on_host {
namespace {

// Captures that the calling thread has begun in a mode other than relaxed.
thread_local int forbidding_captures = 0;

// One replay: streams of the capture as threads that meet at its marks.
class Replay {
 public:
  explicit Replay(const Capture& capture) : capture_(capture), marks_(capture.marks) {}

  void run() {
    std::vector<std::jthread> threads;
    for (const auto& [stream, order] : capture_.orders)
      if (stream != capture_.origin) threads.emplace_back([this, stream = stream] { run(stream); });
    run(capture_.origin);
  }

 private:
  void run(const CUstream_st* stream) {
    for (const CapturedOp& op : capture_.ops)
      if (op.stream == stream) perform(op);
  }

  void perform(const CapturedOp& op) {
    switch (op.kind) {
      case CapturedOp::Kind::work:
        return op.work();
      case CapturedOp::Kind::record:
        return op.record->reach();
      case CapturedOp::Kind::mark:
        return marks_[op.mark].raise(1);
      case CapturedOp::Kind::await:
        return marks_[op.mark].await(1);
    }
  }

  const Capture& capture_;
  std::vector<Signal> marks_;
};

// Whether all that other streams of the capture do is known to have ended where the origin does.
bool joined(const Capture& capture) {
  const Order& end = capture.orders.at(capture.origin);
  return std::ranges::all_of(capture.orders, [&](const auto& entry) {
    const auto known = end.find(entry.first);
    const auto own = entry.second.find(entry.first);
    const std::size_t done = own == entry.second.end() ? 0 : own->second;
    return (known == end.end() ? 0 : known->second) >= done;
  });
}

}  // namespace

bool capture_forbids() { return forbidding_captures > 0; }

}  // namespace trainyard::cuda_on_host

using namespace trainyard::cuda_on_host;

struct CUgraphExec_st {
  std::shared_ptr<const Capture> recorded;
};

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode) {
  if (stream == nullptr || stream->capture) return cudaErrorStreamCaptureUnsupported;
  stream->capture = std::make_shared<Capture>();
  stream->capture->origin = stream;
  stream->capture->mode = mode;
  stream->capture->orders[stream][stream] = 0;
  if (mode != cudaStreamCaptureModeRelaxed) ++forbidding_captures;
  return cudaSuccess;
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  *graph = nullptr;
  const std::shared_ptr<Capture> capture = stream->capture;
  if (!capture || capture->origin != stream) return cudaErrorStreamCaptureUnmatched;
  if (capture->mode != cudaStreamCaptureModeRelaxed) --forbidding_captures;
  for (const auto& [captured, order] : capture->orders) captured->capture = nullptr;
  if (capture->invalid) return cudaErrorStreamCaptureInvalidated;
  if (!joined(*capture)) return cudaErrorStreamCaptureUnjoined;
  *graph = new CUgraph_st{*capture};
  return cudaSuccess;
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  delete graph;
  return cudaSuccess;
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* exec, cudaGraph_t graph, unsigned long long) {
  *exec = new CUgraphExec_st{std::make_shared<const Capture>(graph->recorded)};
  return cudaSuccess;
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) {
  delete exec;
  return cudaSuccess;
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t handle) {
  CUstream_st* const stream = resolve(handle);
  if (stream->capture) return cudaErrorStreamCaptureUnsupported;
  stream->push([recorded = exec->recorded] { Replay(*recorded).run(); });
  return cudaSuccess;
}
