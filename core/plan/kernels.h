#pragma once
#include <cstdint>

#include "core/model/model.h"
#include "core/program/kernel.h"

namespace trainyard {

// Kernel launches with their FLOPs and compulsory memory traffic, from shapes. Traffic per element
// follows the operand lists of kernel_table().

struct GemmShape {
  std::int64_t m, n, k;
  std::int64_t pieces = 1;  // this is one of so many along m, issued side by side
};
// Y[m,n] over k; `accumulate`: adds to Y, which is then read too. Weight gradients accumulate into
// fp32. `kind` is one of the three gemm kinds, `flags` a union of GemmFlag.
KernelSpec gemm(KernelKind kind, const GemmShape& shape, DType dtype, std::uint8_t flags);

struct AttentionShape {
  std::int64_t batch, heads, kv_heads, sequence, head_dim, window;
  std::int64_t context = 1;  // ranks that share the queries of each sequence
};
struct Dropout {
  double probability = 0;
  std::uint32_t site = 0;  // see dropout_site()
};
// Marks a kernel that drops elements; nothing happens at probability 0.
void set_dropout(KernelSpec& spec, const Dropout& dropout);

// Fused attention, forward 4 b h d s l FLOPs (l: mean unmasked keys), backward 2.5 times that with
// its recomputation (arXiv 2307.08691).
KernelSpec attention(bool forward, const AttentionShape& shape, DType dtype,
                     const Dropout& dropout);

// A batched product of unfused attention, `batch` times [m,n] over k, or its two gradients.
KernelSpec batched_gemm(KernelKind kind, std::int64_t batch, const GemmShape& shape, DType dtype);

struct MatrixShape {
  std::int64_t rows, columns;
};
struct ElementTraffic {
  double read, written;  // bytes
};
// A kernel that streams a matrix.
KernelSpec streaming(KernelKind kind, const MatrixShape& shape, const ElementTraffic& traffic,
                     DType dtype);

// An optimizer kernel over `elements`.
KernelSpec per_parameter(KernelKind kind, std::int64_t elements, double read, double written);

}  // namespace trainyard
