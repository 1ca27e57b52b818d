#include "backends/cpu/kernels/bodies.h"
#include "backends/cpu/kernels/product.h"

namespace trainyard::kernels {
namespace {

// Tiles of the result that threads share: at least kTiles of them, unless they would have fewer
// than kFewestRows. The copies of its factors that a tile makes cost less the larger it is.
constexpr std::int64_t kTileRows = 532, kTileColumns = 384, kFewestRows = 112, kTiles = 8;

struct Tile {
  std::int64_t row, rows, column, columns;
  template <class T>
  View<T> of(View<T> y) const {
    return {&y.at(row, column), rows, columns, y.stride};
  }
};

// [0, n) in parts of about equal size, all but the last multiples of `block`.
struct Parts {
  std::int64_t n, block, count;
  std::int64_t begin(std::int64_t part) const {
    const std::int64_t blocks = (n + block - 1) / block;
    return std::min(n, blocks * part / count * block);
  }
};

// Calls f(tile) for tiles that cover [rows, columns].
template <class C, class F>
void for_tiles(const Launch& launch, std::int64_t rows, std::int64_t columns, F f) {
  const auto parts_of = [](std::int64_t n, std::int64_t size) { return (n + size - 1) / size; };
  const Parts across{columns, RegisterBlock<C>::kColumns, parts_of(columns, kTileColumns)};
  const std::int64_t shared =
      std::min(parts_of(kTiles, std::max<std::int64_t>(1, across.count)), rows / kFewestRows);
  const Parts down{rows, RegisterBlock<C>::kRows, std::max(shared, parts_of(rows, kTileRows))};
  for_ranges(launch, across.count * down.count, 1, [&](std::int64_t i, std::int64_t) {
    const std::int64_t row = i / across.count, column = i % across.count;
    Tile tile{down.begin(row), down.begin(row + 1), across.begin(column), across.begin(column + 1)};
    tile.rows -= tile.row;
    tile.columns -= tile.column;
    f(tile);
  });
}

// The tile of y before the product is added: the bias, zero where y is wider than the bias.
template <class T>
void start(View<T> y, std::int64_t first_column, View<const T> bias) {
  const std::int64_t biased = std::clamp<std::int64_t>(bias.columns - first_column, 0, y.columns);
  for (std::int64_t i = 0; i < y.rows; ++i) {
    std::copy_n(bias.data + (biased > 0 ? first_column : 0), biased, y.row(i));
    std::fill_n(y.row(i) + biased, y.columns - biased, T(0));
  }
}

bool flagged(const Launch& launch, GemmFlag flag) { return (launch.spec.flag & flag) != 0; }

// A weight [in, out]; its operand is [out, in] if the transposed flag is set.
template <class T>
View<T> weight(const Launch& launch, std::size_t index, std::int64_t in, std::int64_t out) {
  return flagged(launch, kGemmTransposed) ? operand<T>(launch, index, out, in)
                                          : operand<T>(launch, index, in, out);
}

// y = a b + bias, or y += a b by the flag.
template <class T>
void tiled_product(const Launch& launch, const Factor<T>& a, const Factor<T>& b, View<const T> bias,
                   View<T> y) {
  const bool biased = bias.columns > 0, adds = flagged(launch, kGemmAdds);
  check(bias.columns <= y.columns && !(biased && adds), "bias of {} for {} columns", bias.columns,
        y.columns);
  for_tiles<Compute<T>>(launch, y.rows, y.columns, [&](const Tile& t) {
    const View<T> part = t.of(y);
    if (biased) start(part, t.column, bias);
    product(a.block(t.row, t.rows, 0, a.columns()), b.block(0, b.rows(), t.column, t.columns),
            biased || adds, part);
  });
}

}  // namespace

void gemm_forward(const Launch& launch) {
  with_storage(launch, launch.spec.dtype, [&](auto type) {
    using T = decltype(type);
    const std::int64_t m = launch.spec.shape[0], n = launch.spec.shape[1], k = launch.spec.shape[2];
    const bool biased = flagged(launch, kGemmBias);
    const Factor<T> x{operand<const T>(launch, 0, m, k), false};
    const Factor<T> w{weight<const T>(launch, 1, k, n), flagged(launch, kGemmTransposed)};
    const View<const T> bias = biased ? operand<const T>(launch, 2) : View<const T>{};
    tiled_product(launch, x, w, bias, operand<T>(launch, biased ? 3 : 2, m, n));
  });
}

void gemm_input_grad(const Launch& launch) {
  with_storage(launch, launch.spec.dtype, [&](auto type) {
    using T = decltype(type);
    const std::int64_t m = launch.spec.shape[0], n = launch.spec.shape[1], k = launch.spec.shape[2];
    const Factor<T> dy{operand<const T>(launch, 0, m, k), false};
    const Factor<T> w{weight<const T>(launch, 1, n, k), !flagged(launch, kGemmTransposed)};
    tiled_product(launch, dy, w, {}, operand<T>(launch, 2, m, n));
  });
}

void gemm_weight_grad(const Launch& launch) {
  with_storage(launch, launch.spec.dtype, [&](auto type) {
    using T = decltype(type);
    using C = Compute<T>;
    const std::int64_t m = launch.spec.shape[0], n = launch.spec.shape[1], k = launch.spec.shape[2];
    const bool transposed = flagged(launch, kGemmTransposed);
    const auto x = operand<const T>(launch, 0, k, m), dy = operand<const T>(launch, 1, k, n);
    const Factor<T> a{transposed ? dy : x, true}, b{transposed ? x : dy, false};
    const auto dw = weight<C>(launch, 2, m, n);
    for_tiles<C>(launch, dw.rows, dw.columns, [&](const Tile& t) {
      accumulate(a.block(t.row, t.rows, 0, k), b.block(0, k, t.column, t.columns), t.of(dw));
    });
    if (!flagged(launch, kGemmBias)) return;
    const auto dbias = operand<C>(launch, 3);
    check(dbias.rows == 1 && dbias.columns <= n, "bias gradient of {} for {} columns",
          dbias.columns, n);
    add_column_sums(launch, View<const T>{dy.data, k, dbias.columns, dy.stride}, dbias.data);
  });
}

}  // namespace trainyard::kernels
