#pragma once
#include <algorithm>
#include <cstdint>
#include <limits>
#include <type_traits>
#include <vector>

#include "backends/cpu/kernels/launch.h"

namespace trainyard {

// Operations on a row of contiguous elements. Results depend on the elements and the length alone,
// never on where in memory a row lies: sums run in a fixed order, and functions take the vector
// path for every element (Eigen's own loops leave elements before an aligned address to another
// path).

template <class C>
using Span = Eigen::Map<Eigen::Array<C, Eigen::Dynamic, 1>>;
template <class C>
using ConstSpan = Eigen::Map<const Eigen::Array<C, Eigen::Dynamic, 1>>;

template <class T>
void load(const T* from, std::int64_t n, Compute<T>* to) {
  Span<Compute<T>>(to, n) = ConstSpan<T>(from, n).template cast<Compute<T>>();
}

template <class T>
void store(const Compute<T>* from, std::int64_t n, T* to) {
  Span<T>(to, n) = ConstSpan<Compute<T>>(from, n).template cast<T>();
}

template <class T>
inline constexpr bool kIsCompute = std::is_same_v<T, Compute<T>>;

// A row for reading: in place where storage and arithmetic types agree, a copy elsewhere.
template <class T>
class InRow {
 public:
  explicit InRow(std::int64_t n) : buffer_(kIsCompute<T> ? 0 : n), n_(n) {}
  const Compute<T>* operator()(const T* row) {
    if constexpr (kIsCompute<T>) {
      return row;
    } else {
      load(row, n_, buffer_.data());
      return buffer_.data();
    }
  }

 private:
  std::vector<Compute<T>> buffer_;
  std::int64_t n_;
};

// A row for writing: begin(row) says where to write, end(row) brings it there.
template <class T>
class OutRow {
 public:
  explicit OutRow(std::int64_t n) : buffer_(kIsCompute<T> ? 0 : n), n_(n) {}
  Compute<T>* begin(T* row) {
    if constexpr (kIsCompute<T>)
      return row;
    else
      return buffer_.data();
  }
  void end(T* row) {
    if constexpr (!kIsCompute<T>) store(buffer_.data(), n_, row);
  }

 private:
  std::vector<Compute<T>> buffer_;
  std::int64_t n_;
};

// Sum over i of term(i), in 16 interleaved partial sums.
template <class C, class Term>
C sum_of(std::int64_t n, Term term) {
  constexpr std::int64_t kLanes = 16;
  C lanes[kLanes] = {};
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes)
    for (std::int64_t j = 0; j < kLanes; ++j) lanes[j] += term(i + j);
  for (std::int64_t j = 0; i + j < n; ++j) lanes[j] += term(i + j);
  for (std::int64_t width = kLanes / 2; width > 0; width /= 2)
    for (std::int64_t j = 0; j < width; ++j) lanes[j] += lanes[j + width];
  return lanes[0];
}

inline constexpr std::int64_t kBlockElements = 16;
template <class C>
using RowBlock = Eigen::Array<C, kBlockElements, 1>;

// The elements from x on, zero from `count` on.
template <class C>
RowBlock<C> load_block(const C* x, std::int64_t count) {
  if (count >= kBlockElements) return Eigen::Map<const RowBlock<C>>(x);
  RowBlock<C> rest = RowBlock<C>::Zero();
  std::copy_n(x, count, rest.data());
  return rest;
}

// y[j] = f(x[j]); f maps an Eigen array of 16 elements; y may be x.
template <class C, class F>
void map_blocks(const C* x, std::int64_t n, C* y, F f) {
  std::int64_t i = 0;
  for (; i + kBlockElements <= n; i += kBlockElements) {
    const RowBlock<C> result = f(load_block(x + i, n - i));
    Eigen::Map<RowBlock<C>>(y + i) = result;
  }
  if (i == n) return;
  const RowBlock<C> rest = f(load_block(x + i, n - i));
  std::copy_n(rest.data(), n - i, y + i);
}

// x[j] = f(x[j]).
template <class C, class F>
void for_blocks(C* x, std::int64_t n, F f) {
  map_blocks(x, n, x, f);
}

// Sum over j of exp(x[j] - shift), in the order of sum_of().
template <class C>
C sum_of_exp(const C* x, std::int64_t n, C shift) {
  RowBlock<C> sums = RowBlock<C>::Zero();
  std::int64_t i = 0;
  for (; i + kBlockElements <= n; i += kBlockElements)
    sums += (load_block(x + i, n - i) - shift).exp();
  if (i < n) {
    const RowBlock<C> rest = (load_block(x + i, n - i) - shift).exp();
    for (std::int64_t j = 0; i + j < n; ++j) sums[j] += rest[j];
  }
  return sum_of<C>(kBlockElements, [&](auto j) { return sums[j]; });
}

template <class C>
void exp_each(C* x, std::int64_t n) {
  for_blocks(x, n, [](const auto& block) { return block.exp().eval(); });
}

template <class C>
void tanh_each(C* x, std::int64_t n) {
  for_blocks(x, n, [](const auto& block) { return block.tanh().eval(); });
}

template <class C>
C largest(const C* x, std::int64_t n) {
  return n == 0 ? -std::numeric_limits<C>::infinity() : ConstSpan<C>(x, n).maxCoeff();
}

// to[0, j] += sum over rows of from[., j], in row order.
template <class T>
void add_column_sums(const Launch& launch, View<const T> from, Compute<T>* to) {
  constexpr std::int64_t kColumns = 256;
  for_ranges(launch, from.columns, kColumns, [&](std::int64_t first, std::int64_t last) {
    const std::int64_t n = last - first;
    InRow<T> in(n);
    Compute<T> sums[kColumns] = {};
    for (std::int64_t r = 0; r < from.rows; ++r) {
      const Compute<T>* x = in(from.row(r) + first);
      for (std::int64_t j = 0; j < n; ++j) sums[j] += x[j];
    }
    for (std::int64_t j = 0; j < n; ++j) to[first + j] += sums[j];
  });
}

}  // namespace trainyard
