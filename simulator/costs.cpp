#include "simulator/costs.h"

#include <algorithm>

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

Time ModelCosts::message_overhead(const Route& route) const {
  return collectives_.message_overhead(route.tier);
}

bool ModelCosts::is_ring(Op op, const GroupShape& shape, Bytes bytes) const {
  return collectives_.takes_ring(op, shape, bytes);
}

Time ModelCosts::ring(Op op, const GroupShape& shape, Bytes bytes, Time on_wire) const {
  Wires wires = collectives_.expected_wires(shape);
  // The time step by step has the latency in it; here is what the bytes alone took.
  const double sent_us =
      std::max(to_microseconds(on_wire) / 2, to_microseconds(on_wire) - wires.latency_us);
  wires.node = {static_cast<double>(ring_bytes(op, shape.ranks, bytes).value) / (sent_us * 1e-6)};
  return seconds(to_seconds(collectives_.ring_time(op, shape, bytes, wires)) * in_training_);
}
Time ModelCosts::collective_work(Op op, const GroupShape& shape, Bytes bytes) const {
  return collectives_.work(op, shape.ranks, bytes);
}

Time ModelCosts::transfer_work(Bytes bytes) const { return collectives_.work(Op::send, 2, bytes); }

}  // namespace trainyard
