#include "backends/cuda/kernels/attention_plans.h"
#include "backends/cuda/kernels/cuda_error.h"

namespace trainyard {

std::unique_ptr<AttentionPlans> cudnn_attention_plans() {
  throw CudaError("this build is without cuDNN: none was found when it was configured");
}

}  // namespace trainyard
