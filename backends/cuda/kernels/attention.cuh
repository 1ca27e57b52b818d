#pragma once
#include "backends/cuda/kernels/attention_layout.h"
#include "backends/cuda/kernels/random.cuh"

namespace trainyard::cuda_kernels {

// Operands of fused attention, and what its kernels have to know.
template <class T>
struct AttentionArguments {
  HeadLayout h;
  View<const T> qkv;
  View<T> out;         // forward: written; backward: read
  View<float> lse;     // log of the sum of exp of scaled scores, a row a head
  View<const T> dout;  // backward
  View<T> dqkv;        // backward
  float* delta;        // backward: sum over a head of out * dout, as lse without gaps
  Draws draws;
  std::int64_t first_sample, first_head;  // among all of the global batch, of the model
  float scale;                            // 1 / sqrt(dim)
  bool drops;
  bool packed;  // every head of every row begins on 16 bytes

  // Keys [first_key, query] that a query sees.
  __device__ std::int64_t first_key(std::int64_t query) const {
    return h.window > 0 && query - h.window + 1 > 0 ? query - h.window + 1 : 0;
  }
  __device__ bool sees(std::int64_t query, std::int64_t key) const {
    return query < h.sequence && key <= query && (h.window == 0 || query - key < h.window);
  }
  // Queries [key, end) of which some see one of `keys` keys from `key` on.
  __device__ std::int64_t end_of_queries(std::int64_t key, std::int64_t keys) const {
    const std::int64_t end = key + keys - 1 + h.window;
    return h.window > 0 && end < h.sequence ? end : h.sequence;
  }
  // What dropout multiplies the weight of a key by.
  __device__ float kept(DrawKey draw, std::int64_t batch, std::int64_t head, std::int64_t query,
                        std::int64_t key) const {
    const RowPlace at{first_sample + batch, (first_head + head) * h.sequence + query};
    const uint4 words = draw_words(draw, at, static_cast<std::uint32_t>(key / 4));
    const std::int64_t i = key % 4;
    const std::uint32_t word = i < 2 ? (i == 0 ? words.x : words.y) : (i == 2 ? words.z : words.w);
    return word >= draws.threshold ? draws.scale : 0.0F;
  }
};

template <class T>
AttentionArguments<T> attention_arguments(const CudaLaunch& launch) {
  AttentionArguments<T> g{};
  g.h = fused_heads(launch.spec);
  const HeadLayout& h = g.h;
  expect(launch, h.kv_heads > 0 && h.heads % h.kv_heads == 0, "heads are no whole groups");
  const std::int64_t tokens = h.batch * h.sequence;
  g.qkv = operand<const T>(launch, 0, tokens, h.qkv_columns());
  g.out = operand<T>(launch, 1, tokens, h.query_columns());
  g.lse = operand<float>(launch, 2, h.batch * h.heads, h.sequence);
  g.drops = launch.spec.parameter > 0;
  g.draws = draws_of(launch);
  g.first_sample = launch.context.first_sample;
  g.first_head = launch.context.tensor_rank * h.heads;
  g.scale = static_cast<float>(1 / std::sqrt(static_cast<double>(h.dim)));
  g.packed = has_packs(g.qkv) && has_packs(g.out) && h.dim % kPack<T> == 0;
  return g;
}

template <class T>
void add_backward_operands(const CudaLaunch& launch, AttentionArguments<T>& g) {
  const std::int64_t tokens = g.h.batch * g.h.sequence;
  g.dout = operand<const T>(launch, 3, tokens, g.h.query_columns());
  g.dqkv = operand<T>(launch, 4, tokens, g.h.qkv_columns());
  g.delta = static_cast<float*>(launch.state.scratch(attention_backward_bytes(launch.spec)));
  g.packed = g.packed && has_packs(g.dout) && has_packs(g.dqkv);
}

// A block for each tile of `tile` rows of each of `heads` heads of each sequence.
inline Place attention_place(const CudaLaunch& launch, const HeadLayout& h, std::int64_t heads,
                             int tile) {
  return {dim3(static_cast<unsigned>((h.sequence + tile - 1) / tile), static_cast<unsigned>(heads),
               static_cast<unsigned>(h.batch)),
          dim3(kThreads), launch.stream, 0};
}

// The tensor-core kernels (attention_mma.cu, attention_mma_backward.cu) take heads of up to 128 in
// bf16 and fp16 whose rows begin on 16 bytes; the others, any up to 256.
template <class T>
bool suits_tensor_cores(const AttentionArguments<T>& g) {
  return !std::is_same_v<T, float> && g.packed && g.h.dim <= 128;
}

// Rows of one head of one sequence; backward: dout and the gradients too.
template <class T>
struct HeadViews {
  View<const T> query, key, value, dout;
  View<T> out, dquery, dkey, dvalue;

  __device__ HeadViews(const AttentionArguments<T>& g, std::int64_t batch, std::int64_t head,
                       std::int64_t kv) {
    const HeadLayout& h = g.h;
    const std::int64_t row = batch * h.sequence, d = h.dim;
    const std::int64_t k = (h.heads + kv) * d, v = (h.heads + h.kv_heads + kv) * d;
    const auto head_of = [&](const auto& all, std::int64_t column) {
      using V = std::remove_cv_t<std::remove_reference_t<decltype(all)>>;
      return V{all.data + row * all.stride + column, h.sequence, d, all.stride};
    };
    query = head_of(g.qkv, head * d);
    key = head_of(g.qkv, k);
    value = head_of(g.qkv, v);
    dout = head_of(g.dout, head * d);
    out = head_of(g.out, head * d);
    dquery = head_of(g.dqkv, head * d);
    dkey = head_of(g.dqkv, k);
    dvalue = head_of(g.dqkv, v);
  }
};

}  // namespace trainyard::cuda_kernels
