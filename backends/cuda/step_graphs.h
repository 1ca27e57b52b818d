#pragma once
#include <cuda_runtime_api.h>

#include <map>

#include "core/program/program.h"

namespace trainyard {

// Steps of programs captured as CUDA graphs.
class StepGraphs {
 public:
  StepGraphs() = default;
  ~StepGraphs();
  StepGraphs(const StepGraphs&) = delete;
  StepGraphs& operator=(const StepGraphs&) = delete;

  bool has(const Program& program) const { return graphs_.contains(&program); }
  // What is enqueued on `origin`, and on streams that wait for it, goes into the program's graph
  // until end_capture(); nothing runs.
  void begin_capture(cudaStream_t origin);
  void end_capture(const Program& program, cudaStream_t origin);
  // After a failure in between.
  void drop_capture(cudaStream_t origin);
  bool capturing() const { return capturing_; }
  void launch(const Program& program, cudaStream_t origin) const;

 private:
  bool capturing_ = false;
  std::map<const Program*, cudaGraphExec_t> graphs_;
};

}  // namespace trainyard
