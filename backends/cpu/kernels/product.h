#pragma once
#include <Eigen/Dense>
#include <vector>

#include "backends/cpu/kernels/launch.h"
#include "backends/cpu/kernels/packed.h"
#include "backends/cpu/kernels/rows.h"

namespace trainyard {

template <class C>
using RowMajor = Eigen::Matrix<C, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

// An Eigen matrix on a view's memory.
template <class T>
auto as_matrix(View<T> v) {
  using M = std::conditional_t<std::is_const_v<T>, const RowMajor<std::remove_const_t<T>>,
                               RowMajor<std::remove_const_t<T>>>;
  return Eigen::Map<M, 0, Eigen::OuterStride<>>(v.data, v.rows, v.columns,
                                                Eigen::OuterStride<>(v.stride));
}

// A factor of a product, stored as it is or transposed.
template <class T>
struct Factor {
  View<const T> stored;
  bool transposed = false;
  std::int64_t rows() const { return transposed ? stored.columns : stored.rows; }
  std::int64_t columns() const { return transposed ? stored.rows : stored.columns; }
  // Rows [r, r + rows) and columns [c, c + columns) of the factor.
  Factor block(std::int64_t r, std::int64_t rows, std::int64_t c, std::int64_t columns) const {
    if (transposed) return {{&stored.at(c, r), columns, rows, stored.stride}, true};
    return {{&stored.at(r, c), rows, columns, stored.stride}, false};
  }
};

// The factor in arithmetic type, in `buffer` unless it has that type.
template <class T>
Factor<Compute<T>> converted(const Factor<T>& factor, std::vector<Compute<T>>& buffer) {
  const View<const T>& from = factor.stored;
  if constexpr (kIsCompute<T>) {
    return factor;
  } else {
    buffer.resize(static_cast<std::size_t>(from.rows * from.columns));
    for (std::int64_t i = 0; i < from.rows; ++i)
      load(from.row(i), from.columns, buffer.data() + i * from.columns);
    return {{buffer.data(), from.rows, from.columns, from.columns}, factor.transposed};
  }
}

// y += a b in arithmetic type, for small matrices.
template <class C>
void multiply_add(const Factor<C>& a, const Factor<C>& b, View<C> y) {
  auto out = as_matrix(y);
  const auto left = as_matrix(a.stored), right = as_matrix(b.stored);
  if (a.transposed && b.transposed)
    out.noalias() += left.transpose() * right.transpose();
  else if (a.transposed)
    out.noalias() += left.transpose() * right;
  else if (b.transposed)
    out.noalias() += left * right.transpose();
  else
    out.noalias() += left * right;
}

// y += a b for large matrices; 16-bit factors are converted as they are packed.
template <class T>
void accumulate(const Factor<T>& a, const Factor<T>& b, View<Compute<T>> y) {
  packed_product(Strips<T>{a.stored, a.transposed}, Strips<T>{b.stored, !b.transposed}, a.columns(),
                 y);
}

// y = a b, or y += a b if `adds`; rounded once to the storage type.
template <class T>
void product(const Factor<T>& a, const Factor<T>& b, bool adds, View<T> y) {
  using C = Compute<T>;
  if constexpr (kIsCompute<T>) {
    if (!adds) as_matrix(y).setZero();
    accumulate(a, b, y);
  } else {
    std::vector<C> sums(static_cast<std::size_t>(y.rows * y.columns));
    const View<C> sum{sums.data(), y.rows, y.columns, y.columns};
    if (adds)
      for (std::int64_t i = 0; i < y.rows; ++i) load(y.row(i), y.columns, sum.row(i));
    accumulate(a, b, sum);
    for (std::int64_t i = 0; i < y.rows; ++i) store(sum.row(i), y.columns, y.row(i));
  }
}

}  // namespace trainyard
