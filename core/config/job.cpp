#include "core/config/job.h"

#include <fmt/format.h>

#include <algorithm>

namespace trainyard {

bool Measured::any() const {
  const double times[] = {pipeline_transfer_ms,
                          tensor_collective_ms,
                          gradient_reduce_scatter_ms,
                          parameter_all_gather_ms,
                          embedding_all_reduce_ms,
                          gradient_norm_ms,
                          optimizer_ms,
                          data_loading_ms};
  return !forward_ms.empty() || !backward_ms.empty() || !weight_grad_ms.empty() ||
         std::any_of(std::begin(times), std::end(times), [](double ms) { return ms >= 0; });
}

std::string axes_text(const Parallel& p) {
  return fmt::format("tensor {} x pipeline {} x data {}{}", p.tensor, p.pipeline, p.data,
                     p.context > 1 ? fmt::format(" x context {}", p.context) : "");
}

std::int32_t Job::gpus() const {
  return parallel.tensor * parallel.pipeline * parallel.data * parallel.context * parallel.expert;
}

std::int64_t Job::micro_batches() const {
  return batch.global_sequences / (parallel.data * batch.micro_sequences);
}

Mesh Job::mesh() const {
  // Axes that `order` leaves out stand right outside tensor.
  std::vector<Axis> order = parallel.order;
  auto after_tensor = std::find(order.begin(), order.end(), Axis::tensor);
  if (after_tensor != order.end()) ++after_tensor;
  for (Axis axis : {Axis::expert, Axis::context})
    if (std::find(order.begin(), order.end(), axis) == order.end())
      after_tensor = order.insert(after_tensor, axis);
  std::array<Axis, kAxes> all{};
  std::copy_n(order.begin(), kAxes, all.begin());
  return Mesh(
      {parallel.tensor, parallel.context, parallel.expert, parallel.data, parallel.pipeline}, all);
}

Placement Job::placement() const { return {cluster.node.gpus, parallel.placement}; }

std::int32_t threads_of_rank(const Job& job) {
  const std::int32_t ranks = std::max(1, std::min(job.gpus(), job.cluster.node.gpus));
  if (job.cluster.node.cores == 0) return 1;
  return job.running.threads > 0 ? job.running.threads
                                 : std::max(1, job.cluster.node.cores / ranks);
}

}  // namespace trainyard
