#include "backends/cuda/cuda_backend.h"
#include "core/error.h"

namespace trainyard {

std::unique_ptr<RealBackend> make_cuda_backend(const Job&, const RealBackendOptions&) {
  throw ConfigError("built without CUDA; configure with -DTRAINYARD_CUDA=ON");
}

}  // namespace trainyard
