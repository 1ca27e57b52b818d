#include "backends/cpu/cpu_backend.h"
#include "core/error.h"

namespace trainyard {

std::unique_ptr<RealBackend> make_cpu_backend(const Job&, const RealBackendOptions&) {
  throw ConfigError(
      "this build has no CPU backend; configure with -DTRAINYARD_CPU=ON (needs Eigen)");
}

}  // namespace trainyard
