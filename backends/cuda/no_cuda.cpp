#include "backends/cuda/cuda_backend.h"
#include "core/error.h"

namespace trainyard {

namespace {

constexpr const char* kAbsent = "built without CUDA; configure with -DTRAINYARD_CUDA=ON";

}  // namespace

std::unique_ptr<RealBackend> make_cuda_backend(const Job&, const RealBackendOptions&) {
  throw ConfigError(kAbsent);
}

Machine cuda_machine() { throw ConfigError(kAbsent); }

}  // namespace trainyard
