#pragma once
#include <cuda_runtime_api.h>

#include <cstdint>
#include <map>

namespace trainyard {

// Steps of programs captured as CUDA graphs, by a number of each program.
class StepGraphs {
 public:
  StepGraphs() = default;
  ~StepGraphs();
  StepGraphs(const StepGraphs&) = delete;
  StepGraphs& operator=(const StepGraphs&) = delete;

  bool has(std::uint64_t program) const { return graphs_.contains(program); }
  // What is enqueued on `origin`, and on streams that wait for it, goes into the program's graph
  // until end_capture(); nothing runs.
  void begin_capture(cudaStream_t origin);
  void end_capture(std::uint64_t program, cudaStream_t origin);
  // After a failure in between.
  void drop_capture(cudaStream_t origin);
  bool capturing() const { return capturing_; }
  void launch(std::uint64_t program, cudaStream_t origin) const;

 private:
  bool capturing_ = false;
  std::map<std::uint64_t, cudaGraphExec_t> graphs_;
};

}  // namespace trainyard
