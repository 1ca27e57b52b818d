#pragma once
#include <cuda_runtime_api.h>

#include <compare>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "backends/cuda/kernels/attention_layout.h"

namespace trainyard {

// Which kernels do fused attention. `automatic`: cuDNN's where it has one, ours elsewhere.
struct AttentionChoice {
  enum class Kernels : std::uint8_t { automatic, cudnn, own } kernels = Kernels::automatic;
  bool repeatable = true;  // none whose results differ from run to run
};

// One shape of fused attention, forward or backward, of operands without gaps between rows.
struct AttentionCase {
  cuda_kernels::HeadLayout heads;
  DType dtype = DType::bf16;
  bool backward = false, repeatable = true;
  auto operator<=>(const AttentionCase&) const = default;
};

struct AttentionPointers {
  const void *qkv, *dout = nullptr;
  void *out, *dqkv = nullptr;
  float* lse;
};

// How cuDNN does one case.
class AttentionPlan {
 public:
  virtual ~AttentionPlan() = default;
  virtual std::size_t scratch_bytes() const = 0;
  // Operands and scratch memory begin on 16 bytes.
  virtual void run(const AttentionPointers& at, void* scratch, cudaStream_t stream) = 0;
};

// cuDNN on the calling thread's GPU.
class AttentionPlans {
 public:
  virtual ~AttentionPlans() = default;
  // Throws CudaError that says why when cuDNN has no engine for the case.
  virtual std::unique_ptr<AttentionPlan> make(const AttentionCase& what) = 0;
};

// Throws CudaError in a build without cuDNN, and when the one that is there is too old.
std::unique_ptr<AttentionPlans> cudnn_attention_plans();

}  // namespace trainyard
