#pragma once
#include <cuda_runtime.h>

#include <algorithm>
#include <compare>
#include <cstddef>
#include <cstdint>

#include "core/program/kernel.h"

namespace trainyard::cuda_kernels {

// Heads of a qkv buffer, whose columns are the query heads, the key heads and the value heads of
// this rank, and its rows the sequences one after another; of context ranks, a part of each.
struct HeadLayout {
  std::int64_t batch = 0, heads = 0, kv_heads = 0, sequence = 0, dim = 0, window = 0;
  std::int64_t group = 1;    // query heads that share a key head
  std::int64_t context = 1;  // ranks that share each sequence
  // Own tokens of a sequence; they are so many runs of neighbours, and all keys so many pieces of
  // such a run's tokens that lie side by side.
  __host__ __device__ std::int64_t own() const { return sequence / context; }
  __host__ __device__ std::int64_t runs() const { return context > 1 ? 2 : 1; }
  __host__ __device__ std::int64_t pieces() const { return context * runs(); }
  __host__ __device__ std::int64_t piece() const { return sequence / pieces(); }
  std::int64_t query_columns() const { return heads * dim; }
  std::int64_t qkv_columns() const { return (heads + 2 * kv_heads) * dim; }
  auto operator<=>(const HeadLayout&) const = default;
};

inline HeadLayout fused_heads(const KernelSpec& spec) {
  const auto& s = spec.shape;
  const std::int64_t group = s[1] / std::max<std::int64_t>(1, s[2]);
  return {s[0], s[1], s[2], s[3], s[4], s[5], group, std::max<std::int64_t>(1, spec.flag)};
}

// For each query of each head: the sum over the head of out * dout.
inline std::size_t attention_backward_bytes(const KernelSpec& spec) {
  const HeadLayout h = fused_heads(spec);
  return static_cast<std::size_t>(h.batch * h.heads * h.own()) * sizeof(float);
}

}  // namespace trainyard::cuda_kernels
