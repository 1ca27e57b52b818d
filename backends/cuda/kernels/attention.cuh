#pragma once
#include "backends/cuda/kernels/attention_layout.h"
#include "backends/cuda/kernels/random.cuh"

namespace trainyard::cuda_kernels {

// Neighbouring tokens of a sequence that lie in rows one after another.
struct TokenSpan {
  std::int64_t row, place, count;  // row and place of the first
};

// Keys that a query sees of a span.
struct KeyBounds {
  std::int64_t low, high;
  __device__ bool has(std::int64_t key) const { return key >= low && key <= high; }
};

// Operands of fused attention, and what its kernels have to know.
template <class T>
struct AttentionArguments {
  HeadLayout h;
  View<const T> qkv;
  View<const T> kv;    // keys and values: columns of qkv, or what the context ranks gathered
  View<T> out;         // forward: written; backward: read
  View<float> lse;     // log of the sum of exp of scaled scores, a row a head
  View<const T> dout;  // backward
  View<T> dqkv, dkv;   // backward
  float* delta;        // backward: sum over a head of out * dout, as lse without gaps
  Draws draws;
  OwnPlaces places;
  std::int64_t first_sample, first_head;  // among all of the global batch, of the model
  float scale;                            // 1 / sqrt(dim)
  bool drops;
  bool packed;  // every head of every row begins on 16 bytes

  // Keys [first_key, query] that a query sees.
  __device__ std::int64_t first_key(std::int64_t query) const {
    return h.window > 0 && query - h.window + 1 > 0 ? query - h.window + 1 : 0;
  }
  // Of the span's keys; `query` is negative where there is none.
  __device__ KeyBounds bounds(std::int64_t query, const TokenSpan& keys) const {
    const std::int64_t last = keys.place + keys.count - 1;
    return {h.window > 0 ? query - h.window + 1 : 0, query < last ? query : last};
  }
  // The rank's queries of a sequence are h.runs() spans, the keys h.pieces().
  __device__ TokenSpan queries(std::int64_t batch, std::int64_t run) const {
    const std::int64_t piece = h.piece();
    return {batch * h.own() + run * piece, places.at(run * piece), piece};
  }
  __device__ TokenSpan keys(std::int64_t batch, std::int64_t piece) const {
    const std::int64_t count = h.piece();
    if (h.context == 1) return {batch * h.sequence, 0, count};
    const bool late = piece >= h.context;
    const std::int64_t rank = late ? 2 * h.context - 1 - piece : piece;
    return {(rank * h.batch + batch) * h.own() + (late ? count : 0), piece * count, count};
  }
  // Calls f(span, k) for the tiles of `tile` keys, k tokens into their span, of which queries at
  // places [first, end) see some.
  template <class F>
  __device__ void each_key_tile(std::int64_t batch, std::int64_t first, std::int64_t end, int tile,
                                F f) const {
    const std::int64_t from = first_key(first);
    for (std::int64_t piece = 0; piece < h.pieces(); ++piece) {
      const TokenSpan span = keys(batch, piece);
      const std::int64_t skip = from > span.place ? from - span.place : 0;
      const std::int64_t last = end - span.place < span.count ? end - span.place : span.count;
      for (std::int64_t k = skip / tile * tile; k < last; k += tile) f(span, k);
    }
  }
  // Queries of a span of which some see one of `count` keys from place `key` on: tokens [first,
  // end) of it, `first` a multiple of `tile`.
  struct Range {
    std::int64_t first, end;
  };
  __device__ Range seeing(const TokenSpan& span, std::int64_t key, std::int64_t count,
                          int tile) const {
    const std::int64_t skip = key > span.place ? key - span.place : 0;
    const std::int64_t end = key + count - 1 + h.window - span.place;
    return {skip / tile * tile, h.window > 0 && end < span.count ? end : span.count};
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
  expect(launch, h.context == launch.context.context_size, "is of other context ranks");
  const std::int64_t tokens = h.batch * h.own(), kv = 2 * h.kv_heads * h.dim;
  const std::size_t gathered = h.context > 1 ? 1 : 0;  // operands of what was gathered
  g.qkv = operand<const T>(launch, 0, tokens, h.qkv_columns());
  g.kv = gathered > 0 ? operand<const T>(launch, 1, h.batch * h.sequence, kv)
                      : View<const T>{g.qkv.data + h.query_columns(), tokens, kv, g.qkv.stride};
  g.out = operand<T>(launch, 1 + gathered, tokens, h.query_columns());
  g.lse = operand<float>(launch, 2 + gathered, h.batch * h.heads, h.own());
  g.places = own_places(launch.context, h.sequence);
  g.drops = launch.spec.parameter > 0;
  g.draws = draws_of(launch);
  g.first_sample = launch.context.first_sample;
  g.first_head = launch.context.tensor_rank * h.heads;
  g.scale = static_cast<float>(1 / std::sqrt(static_cast<double>(h.dim)));
  g.packed = has_packs(g.qkv) && has_packs(g.kv) && has_packs(g.out) && h.dim % kPack<T> == 0;
  return g;
}

template <class T>
void add_backward_operands(const CudaLaunch& launch, AttentionArguments<T>& g) {
  const HeadLayout& h = g.h;
  const std::int64_t tokens = h.batch * h.own(), kv = 2 * h.kv_heads * h.dim;
  const std::size_t gathered = h.context > 1 ? 1 : 0;
  g.dout = operand<const T>(launch, 3 + gathered, tokens, h.query_columns());
  g.dqkv = operand<T>(launch, 4 + gathered, tokens, h.qkv_columns());
  g.dkv = gathered > 0 ? operand<T>(launch, 6, h.batch * h.sequence, kv)
                       : View<T>{g.dqkv.data + h.query_columns(), tokens, kv, g.dqkv.stride};
  g.delta = static_cast<float*>(launch.state.scratch(attention_backward_bytes(launch.spec)));
  g.packed = g.packed && has_packs(g.dout) && has_packs(g.dqkv) && has_packs(g.dkv);
}

// A block for each tile of `tile` own queries, or of all keys, of each head of each sequence; tiles
// end with their span.
inline Place attention_place(const CudaLaunch& launch, const HeadLayout& h, bool of_keys,
                             int tile) {
  const std::int64_t tiles = (h.piece() + tile - 1) / tile * (of_keys ? h.pieces() : h.runs());
  return {dim3(static_cast<unsigned>(tiles), static_cast<unsigned>(of_keys ? h.kv_heads : h.heads),
               static_cast<unsigned>(h.batch)),
          dim3(kThreads), launch.stream, 0};
}

// The tile of a block: which of `spans` spans it is of, and where in that one it begins.
struct TileOfSpan {
  std::int64_t span, first;
  __device__ TileOfSpan(std::int64_t number, std::int64_t spans, int tile) {
    const std::int64_t each = gridDim.x / spans;
    span = number / each;
    first = number % each * tile;
  }
};

// The tensor-core kernels (attention_mma.cu, attention_mma_backward.cu) take heads of up to 128 in
// bf16 and fp16 whose rows begin on 16 bytes; the others, any up to 256.
template <class T>
bool suits_tensor_cores(const AttentionArguments<T>& g) {
  return !std::is_same_v<T, float> && g.packed && g.h.dim <= 128;
}

// One head's queries of a span; backward: dout and the gradient too.
template <class T>
struct QueryViews {
  View<const T> query, dout;
  View<T> out, dquery;

  __device__ QueryViews(const AttentionArguments<T>& g, const TokenSpan& span, std::int64_t head) {
    const std::int64_t d = g.h.dim;
    const auto of = [&](const auto& all) {
      using V = std::remove_cv_t<std::remove_reference_t<decltype(all)>>;
      return V{all.data + span.row * all.stride + head * d, span.count, d, all.stride};
    };
    query = of(g.qkv);
    dout = of(g.dout);
    out = of(g.out);
    dquery = of(g.dqkv);
  }
};

// One key head's keys and values of a span; backward: the gradients too.
template <class T>
struct KeyViews {
  View<const T> key, value;
  View<T> dkey, dvalue;

  __device__ KeyViews(const AttentionArguments<T>& g, const TokenSpan& span, std::int64_t kv) {
    const std::int64_t d = g.h.dim;
    const auto of = [&](const auto& all, std::int64_t head) {
      using V = std::remove_cv_t<std::remove_reference_t<decltype(all)>>;
      return V{all.data + span.row * all.stride + head * d, span.count, d, all.stride};
    };
    key = of(g.kv, kv);
    value = of(g.kv, g.h.kv_heads + kv);
    dkey = of(g.dkv, kv);
    dvalue = of(g.dkv, g.h.kv_heads + kv);
  }
};

}  // namespace trainyard::cuda_kernels
