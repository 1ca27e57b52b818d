#pragma once
#include <map>
#include <memory>

#include "tests/cuda_on_host/cudnn_descriptors.h"

namespace trainyard::cuda_on_host {

// Pointers of the tensors in memory, and the numbers of those that the host gives.
struct Bindings {
  std::map<std::int64_t, void*> pointers;
  std::map<std::int64_t, float> scalars;
};

// Does a graph's operations one after another, in fp32; a result is rounded to its tensor's type.
void run_graph(const Descriptor& graph, const Bindings& bindings);

// Plans of this process that cudnnBackendExecute() put on a stream.
int cudnn_runs();

}  // namespace trainyard::cuda_on_host
