#include "simulator/costs.h"

namespace trainyard {

ModelCosts::ModelCosts(const Job& job)
    : kernels_(job.cluster.gpu, job.software), collectives_(job.cluster, job.network) {}

Time ModelCosts::kernel(const KernelSpec& kernel) const { return kernels_.time(kernel); }

Time ModelCosts::collective(Op op, const GroupShape& shape, Bytes bytes) const {
  return collectives_.time(op, shape, bytes);
}

Time ModelCosts::transfer(Bytes bytes, const Route& route) const {
  return collectives_.transfer(bytes, route.tier, route.concurrent);
}

}  // namespace trainyard
