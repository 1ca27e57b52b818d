#include "backends/cpu/cpu_backend.h"
#include "core/error.h"

namespace trainyard {

std::unique_ptr<Backend> make_cpu_backend(const Job&) {
  throw ConfigError(
      "this build has no CPU backend; configure with -DTRAINYARD_CPU=ON (needs Eigen)");
}

}  // namespace trainyard
