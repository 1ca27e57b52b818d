#include "backends/cuda/kernels/bodies.h"
#include "backends/cuda/kernels/random.cuh"

namespace trainyard::cuda_kernels {
namespace {

template <class T>
struct AddArguments {
  View<T> a;
  View<const T> b;
  TokenRows tokens;
  PackGrid packs;
  bool by_place, packed;
};

template <class T>
__global__ void add_packs(AddArguments<T> g) {
  const std::uint32_t i = thread_number();
  if (i >= g.packs.total) return;
  const auto [row, column] = place_of<T>(g.packs, i);
  const std::int64_t count = g.a.columns - column;
  const std::int64_t from = g.by_place ? g.tokens.at(row).place : row;
  Pack<T> sum = load<T>(g.a.row(row) + column, count, g.packed);
  const Pack<T> b = load<T>(g.b.row(from) + column, count, g.packed);
  for (int j = 0; j < kPack<T>; ++j) sum.v[j] += b.v[j];
  store(sum, g.a.row(row) + column, count, g.packed);
}

template <class T>
struct CopyArguments {
  View<const T> from;
  View<T> to;
  PackGrid packs;
  bool packed;
};

template <class T>
__global__ void copy_packs(CopyArguments<T> g) {
  const std::uint32_t i = thread_number();
  if (i >= g.packs.total) return;
  const auto [row, column] = place_of<T>(g.packs, i);
  const std::int64_t count = g.to.columns - column;
  store_raw(load_raw(g.from.row(row) + column, count, g.packed), g.to.row(row) + column, count,
            g.packed);
}

struct ZeroArguments {
  View<std::uint8_t> bytes;
  PackGrid packs;
  bool packed;
};

__global__ void zero_packs(ZeroArguments g) {
  const std::uint32_t i = thread_number();
  if (i >= g.packs.total) return;
  const auto [row, column] = place_of<std::uint8_t>(g.packs, i);
  store_raw(Raw<std::uint8_t>{}, g.bytes.row(row) + column, g.bytes.columns - column, g.packed);
}

}  // namespace

void add(const CudaLaunch& launch) {
  with_storage(launch, launch.spec.dtype, [&](auto type) {
    using T = decltype(type);
    const std::int64_t rows = launch.spec.shape[0], n = launch.spec.shape[1];
    AddArguments<T> g;
    g.by_place = launch.spec.flag == 1;
    g.a = operand<T>(launch, 0, rows, n);
    g.b = g.by_place ? operand<const T>(launch, 1) : operand<const T>(launch, 1, rows, n);
    expect(launch, g.b.columns == n && (!g.by_place || g.b.rows >= launch.context.sequence),
           "the second operand does not fit");
    if (g.by_place) g.tokens = token_rows(launch, rows);
    g.packs = packs_of<T>(launch, rows, n);
    g.packed = has_packs(g.a) && has_packs(g.b);
    run_on(threads_for(launch, g.packs.total), add_packs<T>, g);
  });
}

void copy_columns(const CudaLaunch& launch) {
  with_storage(launch, launch.spec.dtype, [&](auto type) {
    using T = decltype(type);
    const auto& s = launch.spec.shape;
    const std::int64_t rows = s[0], n = s[1], first = s[2];
    const bool back = launch.spec.flag == 1;
    const auto wide = operand<T>(launch, back ? 1 : 0);
    const auto narrow = operand<T>(launch, back ? 0 : 1, rows, n);
    expect(launch, wide.rows == rows && wide.columns >= first + n,
           "columns are not in the operand");
    const View<T> columns{wide.data + first, rows, n, wide.stride};
    const View<T>& from = back ? narrow : columns;
    CopyArguments<T> g{{from.data, rows, n, from.stride}, back ? columns : narrow, {}, false};
    g.packs = packs_of<T>(launch, rows, n);
    g.packed = has_packs(g.from) && has_packs(g.to);
    run_on(threads_for(launch, g.packs.total), copy_packs<T>, g);
  });
}

void zero(const CudaLaunch& launch) {
  expect(launch, launch.operands.size() == 1, "has one operand");
  const Matrix& m = launch.operands[0];
  expect(launch, m.rows * m.columns == launch.spec.shape[0], "elements and operand differ");
  const std::int64_t element = size_of(m.dtype);
  View<std::uint8_t> bytes{static_cast<std::uint8_t*>(m.data), m.rows, m.columns * element,
                           m.row_stride * element};
  // One long row, unless rows lie apart: a row of few bytes would be a thread's whole work.
  if (m.row_stride == m.columns)
    bytes = {bytes.data, 1, m.rows * bytes.columns, m.rows * bytes.columns};
  const PackGrid packs = packs_of<std::uint8_t>(launch, bytes.rows, bytes.columns);
  run_on(threads_for(launch, packs.total), zero_packs,
         ZeroArguments{bytes, packs, has_packs(bytes)});
}

}  // namespace trainyard::cuda_kernels
