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
  return in_training(collectives_.time(op, shape, bytes));
}

Time ModelCosts::transfer(Bytes bytes, const Route& route) const {
  return in_training(collectives_.transfer(bytes, route.tier, route.concurrent));
}

Time ModelCosts::message_overhead(const Route& route) const {
  return in_training(collectives_.message_overhead(route.tier));
}

Wiring ModelCosts::wiring(Op op, const GroupShape& shape, Bytes bytes) const {
  return collectives_.wiring(op, shape, bytes);
}

// The time step by step has the latency in it; the wires are what the bytes alone tell.
Time ModelCosts::over_flows(Op op, const GroupShape& shape, Bytes bytes,
                            const OnWire& on_wire) const {
  const double sent_s = to_seconds(std::max(on_wire.time - on_wire.latency, nanoseconds(1)));
  const Wires wires{{static_cast<double>(on_wire.of_node.value) / sent_s}, on_wire.mean_latency_us};
  return in_training(collectives_.time_over(op, shape, bytes, wires));
}

Time ModelCosts::collective_work(Op op, const GroupShape& shape, Bytes bytes) const {
  return collectives_.work(op, shape.ranks, bytes);
}

Time ModelCosts::transfer_work(Bytes bytes) const { return collectives_.work(Op::send, 2, bytes); }

}  // namespace trainyard
