#pragma once
#include <cmath>

#include "backends/cpu/kernels/dropout.h"
#include "backends/cpu/kernels/product.h"

namespace trainyard {

// A tile of fused attention.
inline constexpr std::int64_t kQueries = 64, kKeys = 128;

// Heads of a qkv buffer, whose columns are the query heads, the key heads and the value heads of
// this rank, and its rows the sequences one after another.
struct HeadLayout {
  std::int64_t batch, heads, kv_heads, sequence, dim, window;

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
    return {&buffer.at(b * sequence, first + head * dim), sequence, dim, buffer.stride};
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

// The head layout of a fused attention kernel; checks that heads divide into groups.
HeadLayout fused_layout(const Launch& launch);

}  // namespace trainyard
