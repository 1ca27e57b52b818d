#include "backends/cuda/kernels/bodies.h"
#include "backends/cuda/kernels/random.cuh"

namespace trainyard::cuda_kernels {
namespace {

// Rows are tokens (heads 0), or queries (batch * heads + head) * sequence + query.
struct DrawnRows {
  TokenRows tokens;
  std::int64_t heads = 0, first_head = 0;

  __device__ RowPlace at(std::int64_t row) const {
    if (heads == 0) return tokens.at(row);
    const std::int64_t sequence = tokens.places.own;
    const std::int64_t head = first_head + row / sequence % heads;
    return {tokens.first_sample + row / (heads * sequence), head * sequence + row % sequence};
  }
};

template <class T>
struct DropoutArguments {
  View<const T> from;
  View<T> to;
  View<std::uint8_t> mask;
  DrawnRows rows;
  Draws draws;
  PackGrid packs;
  bool packed, draws_mask;
};

template <class T>
__global__ void dropout_packs(DropoutArguments<T> g) {
  const std::uint32_t i = thread_number();
  if (i >= g.packs.total) return;
  const auto [row, column] = place_of<T>(g.packs, i);
  const std::int64_t count = g.to.columns - column;
  std::uint8_t keep[kPack<T>];
  std::uint8_t* const mask = g.mask.row(row) + column;
  if (g.draws_mask)
    draw_mask(g.draws, g.draws.key(), g.rows.at(row), static_cast<std::uint32_t>(column), keep);
  Pack<T> pack = load<T>(g.from.row(row) + column, count, g.packed);
  for (int j = 0; j < kPack<T>; ++j) {
    if (j >= count) break;
    if (g.draws_mask)
      mask[j] = keep[j];
    else
      keep[j] = mask[j];
    pack.v[j] = keep[j] != 0 ? pack.v[j] * g.draws.scale : 0.0F;
  }
  store(pack, g.to.row(row) + column, count, g.packed);
}

template <class T>
void run_dropout(const CudaLaunch& launch, DropoutArguments<T> g) {
  g.draws = draws_of(launch);
  g.packs = packs_of<T>(launch, g.to.rows, g.to.columns);
  g.packed = has_packs(g.from) && has_packs(g.to);
  run_on(threads_for(launch, g.packs.total), dropout_packs<T>, g);
}

template <class T>
struct ResidualArguments {
  View<const T> x, residual;
  View<T> out;
  const T* bias;  // null: none
  View<std::uint8_t> mask;
  TokenRows tokens;
  Draws draws;
  PackGrid packs;
  bool packed, drops;
};

template <class T>
__global__ void residual_packs(ResidualArguments<T> g) {
  const std::uint32_t i = thread_number();
  if (i >= g.packs.total) return;
  const auto [row, column] = place_of<T>(g.packs, i);
  const std::int64_t count = g.out.columns - column;
  Pack<T> x = load<T>(g.x.row(row) + column, count, g.packed);
  const Pack<T> before = load<T>(g.residual.row(row) + column, count, g.packed);
  if (g.bias != nullptr) {
    const Pack<T> bias = load<T>(g.bias + column, count, g.packed);
    for (int j = 0; j < kPack<T>; ++j) x.v[j] += bias.v[j];
  }
  if (g.drops) {
    std::uint8_t keep[kPack<T>];
    draw_mask(g.draws, g.draws.key(), g.tokens.at(row), static_cast<std::uint32_t>(column), keep);
    std::uint8_t* const mask = g.mask.row(row) + column;
    for (int j = 0; j < kPack<T>; ++j) {
      x.v[j] = keep[j] != 0 ? x.v[j] * g.draws.scale : 0.0F;
      if (j < count) mask[j] = keep[j];
    }
  }
  for (int j = 0; j < kPack<T>; ++j) x.v[j] += before.v[j];
  store(x, g.out.row(row) + column, count, g.packed);
}

}  // namespace

void dropout_forward(const CudaLaunch& launch) {
  with_storage(launch, launch.spec.dtype, [&](auto type) {
    using T = decltype(type);
    const std::int64_t rows = launch.spec.shape[0], columns = launch.spec.shape[1];
    const bool in_place = !has_operand(launch, 2);
    DropoutArguments<T> g{};
    g.from = operand<const T>(launch, 0, rows, columns);
    g.to = operand<T>(launch, in_place ? 0 : 1, rows, columns);
    g.mask = operand<std::uint8_t>(launch, in_place ? 1 : 2, rows, columns);
    g.rows.heads = launch.spec.shape[2];
    g.rows.first_head = launch.context.tensor_rank * g.rows.heads;
    if (g.rows.heads == 0)
      g.rows.tokens = token_rows(launch, rows);
    else
      g.rows.tokens = {own_places(launch.context, launch.context.sequence),
                       launch.context.first_sample};
    g.draws_mask = true;
    run_dropout(launch, g);
  });
}

void dropout_backward(const CudaLaunch& launch) {
  with_storage(launch, launch.spec.dtype, [&](auto type) {
    using T = decltype(type);
    const std::int64_t rows = launch.spec.shape[0], columns = launch.spec.shape[1];
    DropoutArguments<T> g{};
    g.mask = operand<std::uint8_t>(launch, 0, rows, columns);
    g.from = operand<const T>(launch, 1, rows, columns);
    g.to = operand<T>(launch, 1, rows, columns);
    run_dropout(launch, g);
  });
}

void residual_forward(const CudaLaunch& launch) {
  with_storage(launch, launch.spec.dtype, [&](auto type) {
    using T = decltype(type);
    const std::int64_t rows = launch.spec.shape[0], n = launch.spec.shape[1];
    const bool biased = (launch.spec.flag & 1) != 0;
    ResidualArguments<T> g{};
    g.x = operand<const T>(launch, 0, rows, n);
    g.residual = operand<const T>(launch, 1, rows, n);
    g.out = operand<T>(launch, 2, rows, n);
    g.packed = has_packs(g.x) && has_packs(g.residual) && has_packs(g.out);
    if (biased) {
      const auto bias = operand<const T>(launch, 3, 1, n);
      g.bias = bias.data;
      g.packed = g.packed && has_packs(bias);
    }
    g.drops = launch.spec.parameter > 0;
    g.draws = draws_of(launch);
    if (g.drops) {
      g.mask = operand<std::uint8_t>(launch, biased ? 4 : 3, rows, n);
      g.tokens = token_rows(launch, rows);
    }
    g.packs = packs_of<T>(launch, rows, n);
    run_on(threads_for(launch, g.packs.total), residual_packs<T>, g);
  });
}

void residual_backward(const CudaLaunch& launch) {
  with_storage(launch, launch.spec.dtype, [&](auto type) {
    using T = decltype(type);
    const std::int64_t rows = launch.spec.shape[0], n = launch.spec.shape[1];
    const bool biased = (launch.spec.flag & 1) != 0, drops = launch.spec.parameter > 0;
    Matrix dx = operand_of(launch, 0, label<T>(), {rows, n});
    if (drops) {
      DropoutArguments<T> g{};
      g.from = view_of<const T>(dx);
      g.mask = operand<std::uint8_t>(launch, 1, rows, n);
      g.to = operand<T>(launch, 2, rows, n);
      run_dropout(launch, g);
      dx = operand_of(launch, 2, label<T>(), {rows, n});
    }
    if (biased) add_column_sums(launch, dx, operand<float>(launch, drops ? 3 : 1, 1, n).data);
  });
}

}  // namespace trainyard::cuda_kernels
