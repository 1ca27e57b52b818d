#pragma once
#include <Eigen/Core>
#include <algorithm>
#include <memory>
#include <new>

#include "backends/cpu/kernels/rows.h"

namespace trainyard {

// Products of large matrices: factors are copied into strips as wide as a block of the result that
// fits the processor's registers (Goto and van de Geijn, "Anatomy of high-performance matrix
// multiplication", ACM TOMS 34(3), 2008). An element of the result is y + s0 + s1 + …, each s the
// sum over kDepth terms in their order: where it lies and how the result is cut does not matter.
template <class C>
struct RegisterBlock {
  using Packet = typename Eigen::internal::packet_traits<C>::type;
  static constexpr std::int64_t kLanes = Eigen::internal::packet_traits<C>::size;
  // 28 of 32 registers with AVX-512, 12 of 16 elsewhere.
  static constexpr std::int64_t kRows = kLanes * sizeof(C) == 64 ? 14 : 6;
  static constexpr std::int64_t kVectors = 2, kColumns = kVectors * kLanes;
};

// Of strips: one of rows stays in the first-level cache.
inline constexpr std::int64_t kDepth = 384;

// A factor as strips run through it: [depth, across], or stored [across, depth].
template <class T>
struct Strips {
  View<const T> stored;
  bool along_rows;  // a row is a depth's elements of all strips
  std::int64_t across() const { return along_rows ? stored.columns : stored.rows; }
};

// Memory for packed factors, aligned to cache lines and not initialised.
template <class C>
class Packed {
 public:
  explicit Packed(std::int64_t elements)
      : data_(static_cast<C*>(::operator new[](static_cast<std::size_t>(elements) * sizeof(C),
                                               std::align_val_t{64}))) {}
  C* data() const { return data_.get(); }

 private:
  struct Free {
    void operator()(C* memory) const { ::operator delete[](memory, std::align_val_t{64}); }
  };
  std::unique_ptr<C, Free> data_;
};

// The elements from `from` on, zero from `count` on.
template <class T>
EIGEN_ALWAYS_INLINE typename RegisterBlock<Compute<T>>::Packet load_packet(const T* from,
                                                                           std::int64_t count) {
  using C = Compute<T>;
  namespace I = Eigen::internal;
  constexpr std::int64_t kLanes = RegisterBlock<C>::kLanes;
  if constexpr (kIsCompute<T>)
    if (count >= kLanes) [[likely]]
      return I::ploadu<typename RegisterBlock<C>::Packet>(from);
  alignas(64) C values[kLanes] = {};
  if (count > 0) load(from, std::min(count, kLanes), values);
  return I::pload<typename RegisterBlock<C>::Packet>(values);
}

// Elements from the start of a strip to the next: room for a packet beyond the last depth.
template <std::int64_t kWidth, class C>
inline constexpr std::int64_t kStripElements = kDepth* kWidth + RegisterBlock<C>::kLanes;

// The strip from `at` on of a factor stored [across, depth].
template <std::int64_t kWidth, class T>
void pack_turned(const Strips<T>& from, std::int64_t at, std::int64_t first, std::int64_t depth,
                 Compute<T>* to) {
  using C = Compute<T>;
  namespace I = Eigen::internal;
  constexpr std::int64_t kLanes = RegisterBlock<C>::kLanes;
  const std::int64_t width = std::min(kWidth, from.across() - at);
  for (std::int64_t d = 0; d < depth; d += kLanes)
    for (std::int64_t j = 0; j < kWidth; j += kLanes) {
      I::PacketBlock<typename RegisterBlock<C>::Packet, kLanes> square;
      for (std::int64_t i = 0; i < kLanes; ++i)
        square.packet[i] = i < width - j
                               ? load_packet(&from.stored.at(at + j + i, first + d), depth - d)
                               : I::pset1<typename RegisterBlock<C>::Packet>(C{0});
      I::ptranspose(square);
      for (std::int64_t i = 0; i < std::min(kLanes, depth - d); ++i) {
        C* const place = to + (d + i) * kWidth + j;
        if (kWidth <= kLanes || j + kLanes <= kWidth) {  // what is beyond comes later
          I::pstoreu(place, square.packet[i]);
        } else {
          alignas(64) C values[kLanes];
          I::pstore(values, square.packet[i]);
          std::copy_n(values, kWidth - j, place);
        }
      }
    }
}

// All strips' elements of depths [first, first + depth), kWidth a depth; those beyond the factor
// are zero.
template <std::int64_t kWidth, class T>
void pack(const Strips<T>& from, std::int64_t first, std::int64_t depth, Compute<T>* to) {
  using C = Compute<T>;
  constexpr std::int64_t kLanes = RegisterBlock<C>::kLanes;
  const std::int64_t across = from.across();
  constexpr std::int64_t kAhead = 8;  // rows: they are too short for the processor to foresee
  if (!from.along_rows) {
    for (std::int64_t at = 0; at < across; at += kWidth, to += kStripElements<kWidth, C>)
      pack_turned<kWidth>(from, at, first, depth, to);
    return;
  }
  for (std::int64_t d = 0; d < depth; ++d, to += kWidth) {
    const T* row = from.stored.row(first + d);
    const T* ahead = from.stored.row(std::min(first + d + kAhead, from.stored.rows - 1));
    C* strip = to;
    for (std::int64_t at = 0; at < across; at += kWidth, strip += kStripElements<kWidth, C>) {
      __builtin_prefetch(ahead + at);
      __builtin_prefetch(ahead + std::min(at + kWidth, across) - 1);
      for (std::int64_t j = 0; j < kWidth; j += kLanes)
        Eigen::internal::pstoreu(strip + j, load_packet(row + at + j, across - at - j));
    }
  }
}

// y += a b for a strip of rows and one of columns.
template <class C>
void multiply_strips(const C* a, const C* b, std::int64_t depth, C* y, std::int64_t stride) {
  namespace I = Eigen::internal;
  using B = RegisterBlock<C>;
  typename B::Packet sums[B::kRows][B::kVectors];
#pragma GCC unroll 16
  for (std::int64_t r = 0; r < B::kRows; ++r) {
    __builtin_prefetch(y + r * stride, 1);
    __builtin_prefetch(y + r * stride + B::kLanes, 1);
#pragma GCC unroll 2
    for (std::int64_t v = 0; v < B::kVectors; ++v) sums[r][v] = I::pset1<typename B::Packet>(C{0});
  }
#pragma GCC unroll 2
  for (std::int64_t k = 0; k < depth; ++k, a += B::kRows, b += B::kColumns) {
    const auto left = I::pload<typename B::Packet>(b);
    const auto right = I::pload<typename B::Packet>(b + B::kLanes);
#pragma GCC unroll 16
    for (std::int64_t r = 0; r < B::kRows; ++r) {
      const auto x = I::pset1<typename B::Packet>(a[r]);
      sums[r][0] = I::pmadd(x, left, sums[r][0]);
      sums[r][1] = I::pmadd(x, right, sums[r][1]);
    }
  }
#pragma GCC unroll 16
  for (std::int64_t r = 0; r < B::kRows; ++r)
#pragma GCC unroll 2
    for (std::int64_t v = 0; v < B::kVectors; ++v) {
      C* to = y + r * stride + v * B::kLanes;
      I::pstoreu(to, I::padd(I::ploadu<typename B::Packet>(to), sums[r][v]));
    }
}

// The same where the result ends within the block.
template <class C>
void multiply_edge(const C* a, const C* b, std::int64_t depth, View<C> y) {
  using B = RegisterBlock<C>;
  alignas(64) C block[B::kRows * B::kColumns] = {};
  multiply_strips(a, b, depth, block, B::kColumns);
  for (std::int64_t i = 0; i < y.rows; ++i)
    for (std::int64_t j = 0; j < y.columns; ++j) y.at(i, j) += block[i * B::kColumns + j];
}

// y += a b; `a` has y's rows across, `b` its columns.
template <class T>
void packed_product(const Strips<T>& a, const Strips<T>& b, std::int64_t depth,
                    View<Compute<T>> y) {
  using C = Compute<T>;
  using B = RegisterBlock<C>;
  const std::int64_t down = (y.rows + B::kRows - 1) / B::kRows;
  const std::int64_t across = (y.columns + B::kColumns - 1) / B::kColumns;
  constexpr std::int64_t kRowStrip = kStripElements<B::kRows, C>;
  constexpr std::int64_t kColumnStrip = kStripElements<B::kColumns, C>;
  const Packed<C> left(down * kRowStrip), right(across * kColumnStrip);
  for (std::int64_t k = 0; k < depth; k += kDepth) {
    const std::int64_t n = std::min(kDepth, depth - k);
    pack<B::kRows>(a, k, n, left.data());
    pack<B::kColumns>(b, k, n, right.data());
    for (std::int64_t i = 0; i < down; ++i)
      for (std::int64_t j = 0; j < across; ++j) {
        const C* const rows = left.data() + i * kRowStrip;
        const C* const columns = right.data() + j * kColumnStrip;
        const std::int64_t row = i * B::kRows, column = j * B::kColumns;
        const View<C> part{&y.at(row, column), std::min(B::kRows, y.rows - row),
                           std::min(B::kColumns, y.columns - column), y.stride};
        if (part.rows == B::kRows && part.columns == B::kColumns)
          multiply_strips(rows, columns, n, part.data, part.stride);
        else
          multiply_edge(rows, columns, n, part);
      }
  }
}

}  // namespace trainyard
