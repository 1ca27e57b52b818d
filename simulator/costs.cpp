#include "simulator/costs.h"

#include "simulator/spread.h"

namespace trainyard {

ModelCosts::ModelCosts(const Job& job)
    : kernels_(job.cluster.gpu, job.software, threads_of_rank(job)),
      collectives_(job.cluster, job.network),
      slowest_gpu_(expected_slowest(job.cluster.node.gpu_spread, job.gpus())),
      in_training_(job.cluster.nccl.in_training) {}

Time ModelCosts::kernel(const KernelSpec& kernel) const {
  return seconds(to_seconds(kernels_.time(kernel)) * slowest_gpu_);
}

Time ModelCosts::collective(Op op, const GroupShape& shape, Bytes bytes) const {
  return seconds(to_seconds(collectives_.time(op, shape, bytes)) * in_training_);
}

Time ModelCosts::transfer(Bytes bytes, const Route& route) const {
  return collectives_.transfer(bytes, route.tier, route.concurrent);
}

Time ModelCosts::collective_work(Op op, const GroupShape& shape, Bytes bytes) const {
  return collectives_.work(op, shape.ranks, bytes);
}

Time ModelCosts::transfer_work(Bytes bytes) const { return collectives_.work(Op::send, 2, bytes); }

}  // namespace trainyard
