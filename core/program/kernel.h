#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/types.h"

namespace trainyard {

enum class DType : std::uint8_t { fp32, bf16, fp16, int32, uint8 };
std::int64_t size_of(DType dtype);
std::string_view dtype_name(DType dtype);

// Everything a compute stream can be asked to do. What the numbers of KernelSpec::shape mean is
// stated per kind in kernel_table() (kernel.cpp), which every backend and cost model covers.
enum class KernelKind : std::uint8_t {
  gemm_forward,       // Y[m,n] = X[m,k] W[k,n] (+ bias)
  gemm_input_grad,    // dX[m,n] = dY[m,k] W[n,k]^T
  gemm_weight_grad,   // dW[m,n] += X[k,m]^T dY[k,n], fp32 accumulation (+ bias gradient)
  attention_forward,  // fused (flash) attention
  attention_backward,
  attention_scores,  // unfused: Q K^T per head
  attention_scores_grad,
  attention_context,  // unfused: P V per head
  attention_context_grad,
  softmax_forward,  // scale + mask + softmax over keys
  softmax_backward,
  dropout_forward,
  dropout_backward,
  rope_forward,
  rope_backward,
  norm_forward,
  norm_backward,
  activation_forward,  // bias + GELU, or SwiGLU
  activation_backward,
  residual_forward,  // bias + dropout + add
  residual_backward,
  add,           // of two activations or gradients
  copy_columns,  // between a buffer of its own and columns of a wider one
  embedding_forward,
  embedding_backward,
  loss_max,       // vocabulary-parallel cross-entropy: per-row maximum of local logits
  loss_sum,       // per-row sum of exp and the target's logit
  loss_forward,   // per-row loss and its sum over valid tokens
  loss_backward,  // softmax - onehot, scaled by 1 / valid tokens
  adam,
  adamw,
  lamb_update,  // Adam direction and the partial norms of weight and update, per tensor
  lamb_apply,   // trust ratio and weight update
  grad_norm,    // partial sum of squares
  grad_clip,    // scale by min(1, clip / norm)
  zero,
};
inline constexpr int kKernelKinds = static_cast<int>(KernelKind::zero) + 1;

// KernelSpec::flag of the three products.
enum GemmFlag : std::uint8_t {
  kGemmBias = 1,        // adds a bias, or sums its gradient
  kGemmAdds = 2,        // adds to the result instead of replacing it
  kGemmTransposed = 4,  // the weight is stored [out, in]
};

// One kernel launch, deduplicated within a program.
struct KernelSpec {
  KernelKind kind{};
  DType dtype = DType::bf16;
  std::uint8_t flag = 0;                // per kind, see kernel_table()
  std::array<std::int64_t, 6> shape{};  // per kind, see kernel_table()
  std::uint32_t site = 0;  // which dropout of the model this is, the same in every layout
  double parameter = 0.0;  // per kind: dropout probability, window …
  double flops = 0.0;      // what the hardware executes
  Bytes read, written;     // compulsory memory traffic
  bool operator==(const KernelSpec&) const = default;
};

// What a kernel's time counts as in reports.
enum class CostClass : std::uint8_t { gemm, attention, memory, optimizer };

struct KernelInfo {
  KernelKind kind;
  std::string_view name;
  CostClass cost;
  std::string_view shape;  // meaning of shape[], flag, parameter and of the operands, in order
};

const KernelInfo& kernel_info(KernelKind kind);

// Some kinds stand for two algorithms that cost differently: attention and residuals with dropout,
// RMSNorm, SwiGLU, what works on positions. The second one's name; empty: there is none.
std::string_view second_form(KernelKind kind);
// What a measured cost of the kernel is called: the kind, or KIND_FORM for the second form.
std::string cost_name(const KernelSpec& kernel);
// All that cost_name() can give.
std::vector<std::string> cost_names();

}  // namespace trainyard
