#include "backends/cpu/kernels/attention.h"
#include "backends/cpu/kernels/bodies.h"

namespace trainyard::kernels {
namespace {

// The layout behind an unfused product, whose spec names the products alone: the buffer tells how
// many sequences and key heads there are.
template <class T>
HeadLayout unfused_layout(const Launch& launch, View<T> qkv, std::int64_t dim) {
  const std::int64_t sequence = launch.spec.shape[1];
  check(sequence > 0 && qkv.rows % sequence == 0, "{} rows of sequences of {}", qkv.rows, sequence);
  HeadLayout h{qkv.rows / sequence, 0, 0, sequence, dim, 0};
  h.heads = launch.spec.shape[0] / h.batch;
  h.kv_heads = (qkv.columns / dim - h.heads) / 2;
  check(h.kv_heads > 0 && h.heads % h.kv_heads == 0 && h.qkv_columns() == qkv.columns,
        "{} columns of {} heads of {}", qkv.columns, h.heads, dim);
  return h;
}

// Scores or probabilities of one head: [sequence, sequence].
template <class T>
View<T> square(const HeadLayout& h, View<T> all, std::int64_t b, std::int64_t head) {
  return rows_of(all, (b * h.heads + head) * h.sequence, h.sequence);
}

template <class T>
View<T> squares(const Launch& launch, std::size_t index, const HeadLayout& h) {
  return operand<T>(launch, index, h.batch * h.heads * h.sequence, h.sequence);
}

// Calls f(b, head) for all query heads.
template <class F>
void for_heads(const Launch& launch, const HeadLayout& h, F f) {
  for_ranges(launch, h.batch * h.heads, 1,
             [&](std::int64_t i, std::int64_t) { f(i / h.heads, i % h.heads); });
}

// Calls f(b, head, sum) for the query heads of each key head and stores their common sum, which is
// rounded once, to columns(b, key head).
template <class T, class Columns, class F>
void for_groups(const Launch& launch, const HeadLayout& h, Columns columns, F f) {
  const std::int64_t group = h.heads / h.kv_heads;
  for_ranges(launch, h.batch * h.kv_heads, 1, [&](std::int64_t i, std::int64_t) {
    const std::int64_t b = i / h.kv_heads, kv = i % h.kv_heads;
    Scratch<Compute<T>> sum(h.sequence, h.dim);
    for (std::int64_t j = 0; j < group; ++j) f(b, kv * group + j, sum.view);
    const View<T> to = columns(b, kv);
    for (std::int64_t r = 0; r < h.sequence; ++r) store(sum.view.row(r), h.dim, to.row(r));
  });
}

}  // namespace

void attention_scores(const Launch& launch) {
  with_storage(launch, launch.spec.dtype, [&](auto type) {
    using T = decltype(type);
    const auto qkv = operand<const T>(launch, 0);
    const HeadLayout h = unfused_layout(launch, qkv, launch.spec.shape[3]);
    const auto scores = squares<T>(launch, 1, h);
    for_heads(launch, h, [&](std::int64_t b, std::int64_t head) {
      product<T>({h.query(qkv, b, head)}, {h.key(qkv, b, h.kv_head(head)), true}, false,
                 square(h, scores, b, head));
    });
  });
}

void attention_scores_grad(const Launch& launch) {
  with_storage(launch, launch.spec.dtype, [&](auto type) {
    using T = decltype(type);
    const auto qkv = operand<const T>(launch, 0);
    const HeadLayout h = unfused_layout(launch, qkv, launch.spec.shape[3]);
    const auto dscores = squares<const T>(launch, 1, h);
    const auto dqkv = operand<T>(launch, 2, qkv.rows, qkv.columns);
    const auto key = [&](std::int64_t b, std::int64_t kv) { return h.key(dqkv, b, kv); };
    for_groups<T>(launch, h, key, [&](std::int64_t b, std::int64_t head, View<Compute<T>> sum) {
      const auto ds = square(h, dscores, b, head);
      product<T>({ds}, {h.key(qkv, b, h.kv_head(head))}, false, h.query(dqkv, b, head));
      accumulate<T>({ds, true}, {h.query(qkv, b, head)}, sum);
    });
  });
}

void attention_context(const Launch& launch) {
  with_storage(launch, launch.spec.dtype, [&](auto type) {
    using T = decltype(type);
    const auto qkv = operand<const T>(launch, 0);
    const HeadLayout h = unfused_layout(launch, qkv, launch.spec.shape[2]);
    const auto weights = squares<const T>(launch, 1, h);
    const auto out = operand<T>(launch, 2, qkv.rows, h.query_columns());
    for_heads(launch, h, [&](std::int64_t b, std::int64_t head) {
      product<T>({square(h, weights, b, head)}, {h.value(qkv, b, h.kv_head(head))}, false,
                 h.head_of(out, b, head));
    });
  });
}

void attention_context_grad(const Launch& launch) {
  with_storage(launch, launch.spec.dtype, [&](auto type) {
    using T = decltype(type);
    const auto qkv = operand<const T>(launch, 0);
    const HeadLayout h = unfused_layout(launch, qkv, launch.spec.shape[2]);
    const auto weights = squares<const T>(launch, 1, h);
    const auto dout = operand<const T>(launch, 2, qkv.rows, h.query_columns());
    const auto dweights = squares<T>(launch, 3, h);
    const auto dqkv = operand<T>(launch, 4, qkv.rows, qkv.columns);
    const auto value = [&](std::int64_t b, std::int64_t kv) { return h.value(dqkv, b, kv); };
    for_groups<T>(launch, h, value, [&](std::int64_t b, std::int64_t head, View<Compute<T>> sum) {
      const auto dcontext = h.head_of(dout, b, head);
      product<T>({dcontext}, {h.value(qkv, b, h.kv_head(head)), true}, false,
                 square(h, dweights, b, head));
      accumulate<T>({square(h, weights, b, head), true}, {dcontext}, sum);
    });
  });
}

}  // namespace trainyard::kernels
