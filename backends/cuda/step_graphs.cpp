#include "backends/cuda/step_graphs.h"

#include "backends/cuda/kernels/cuda_error.h"

namespace trainyard {

StepGraphs::~StepGraphs() {
  for (const auto& [program, graph] : graphs_) cudaGraphExecDestroy(graph);
}

void StepGraphs::begin_capture(cudaStream_t origin) {
  require(cudaStreamBeginCapture(origin, cudaStreamCaptureModeThreadLocal),
          "cudaStreamBeginCapture");
  capturing_ = true;
}

void StepGraphs::end_capture(std::uint64_t program, cudaStream_t origin) {
  cudaGraph_t graph = nullptr;
  capturing_ = false;
  require(cudaStreamEndCapture(origin, &graph), "cudaStreamEndCapture");
  cudaGraphExec_t exec = nullptr;
  const cudaError_t result = cudaGraphInstantiate(&exec, graph, 0);
  cudaGraphDestroy(graph);
  require(result, "cudaGraphInstantiate");
  graphs_[program] = exec;
}

void StepGraphs::drop_capture(cudaStream_t origin) {
  if (!capturing_) return;
  capturing_ = false;
  cudaGraph_t graph = nullptr;
  if (cudaStreamEndCapture(origin, &graph) == cudaSuccess) cudaGraphDestroy(graph);
  cudaGetLastError();
}

void StepGraphs::launch(std::uint64_t program, cudaStream_t origin) const {
  require(cudaGraphLaunch(graphs_.at(program), origin), "cudaGraphLaunch");
}

}  // namespace trainyard
