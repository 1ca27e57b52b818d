#pragma once
#include <cmath>

#include "backends/cpu/kernels/dropout.h"
#include "backends/cpu/kernels/product.h"

namespace trainyard {

// A tile of fused attention.
inline constexpr std::int64_t kQueries = 64, kKeys = 128;

// Heads of a qkv buffer, whose columns are the query heads, the key heads and the value heads of
// this rank, and its rows the sequences one after another; of context ranks, a part of each.
struct HeadLayout {
  std::int64_t batch, heads, kv_heads, sequence, dim, window;
  std::int64_t context = 1, context_rank = 0;

  ContextTokens tokens() const { return {sequence, context}; }
  std::int64_t own() const { return sequence / context; }
  // Own tokens at consecutive places: rows [row, row + count) are the places from `first` on.
  struct Run {
    std::int64_t row, first, count;
  };
  std::int64_t runs() const { return context > 1 ? 2 : 1; }
  Run run(std::int64_t i) const {
    const std::int64_t count = own() / runs();
    return {i * count, tokens().place(context_rank, i * count), count};
  }
  // Row of a place of sequence b in what the context ranks gathered.
  std::int64_t gathered_row(std::int64_t b, std::int64_t place) const {
    const auto [rank, at] = tokens().holder(place);
    return (rank * batch + b) * own() + at;
  }

  std::int64_t query_columns() const { return heads * dim; }
  std::int64_t qkv_columns() const { return (heads + 2 * kv_heads) * dim; }
  std::int64_t kv_head(std::int64_t head) const { return head / (heads / kv_heads); }
  // Keys [first, last) that a query sees: the `window` last ones up to itself, or all (window 0).
  std::int64_t first_key(std::int64_t query) const {
    return window > 0 ? std::max<std::int64_t>(0, query - window + 1) : 0;
  }
  std::int64_t last_key(std::int64_t query) const { return query + 1; }

  // Head `head` of sequence b in a buffer of which heads take the columns from `first` on.
  template <class T>
  View<T> head_of(View<T> buffer, std::int64_t b, std::int64_t head, std::int64_t first = 0) const {
    return {&buffer.at(b * own(), first + head * dim), own(), dim, buffer.stride};
  }
  template <class T>
  View<T> query(View<T> qkv, std::int64_t b, std::int64_t head) const {
    return head_of(qkv, b, head);
  }
  template <class T>
  View<T> key(View<T> qkv, std::int64_t b, std::int64_t kv_head) const {
    return head_of(qkv, b, kv_head, heads * dim);
  }
  template <class T>
  View<T> value(View<T> qkv, std::int64_t b, std::int64_t kv_head) const {
    return head_of(qkv, b, kv_head, (heads + kv_heads) * dim);
  }
};

// Keys and values of whole sequences in order: columns of qkv, or a copy of what context ranks
// gathered.
template <class T>
class KeysInOrder {
 public:
  KeysInOrder(const HeadLayout& heads, View<const T> qkv, View<const T> gathered)
      : h_(heads), qkv_(qkv) {
    if (h_.context == 1) return;
    const std::int64_t columns = 2 * h_.kv_heads * h_.dim;
    copy_.resize(static_cast<std::size_t>(h_.batch * h_.sequence * columns));
    T* to = copy_.data();
    for (std::int64_t b = 0; b < h_.batch; ++b)
      for (std::int64_t place = 0; place < h_.sequence; ++place, to += columns)
        std::copy_n(gathered.row(h_.gathered_row(b, place)), columns, to);
  }
  View<const T> key(std::int64_t b, std::int64_t kv) const {
    return h_.context == 1 ? h_.key(qkv_, b, kv) : of_copy(b, kv);
  }
  View<const T> value(std::int64_t b, std::int64_t kv) const {
    return h_.context == 1 ? h_.value(qkv_, b, kv) : of_copy(b, h_.kv_heads + kv);
  }

 private:
  View<const T> of_copy(std::int64_t b, std::int64_t head) const {
    const std::int64_t columns = 2 * h_.kv_heads * h_.dim;
    return {copy_.data() + b * h_.sequence * columns + head * h_.dim, h_.sequence, h_.dim, columns};
  }
  const HeadLayout& h_;
  View<const T> qkv_;
  std::vector<T> copy_;
};

template <class T>
View<T> rows_of(View<T> v, std::int64_t first, std::int64_t rows) {
  return {v.row(first), rows, v.columns, v.stride};
}

// A matrix of arithmetic type that owns its memory.
template <class C>
struct Scratch {
  Scratch(std::int64_t rows, std::int64_t columns)
      : data(static_cast<std::size_t>(rows * columns)), view{data.data(), rows, columns, columns} {}
  std::vector<C> data;
  View<C> view;
};

// Operand `index` as what context ranks gathered of keys and values; nothing if there are none.
template <class T>
View<const T> gathered_keys(const Launch& launch, const HeadLayout& h, std::size_t index) {
  if (h.context == 1) return {};
  return operand<const T>(launch, index, h.batch * h.sequence, 2 * h.kv_heads * h.dim);
}

// The head layout of a fused attention kernel; checks that heads divide into groups.
HeadLayout fused_layout(const Launch& launch);

}  // namespace trainyard
