#include <cmath>

#include "backends/cpu/kernels/bodies.h"
#include "backends/cpu/kernels/ids.h"
#include "backends/cpu/kernels/rows.h"

namespace trainyard::kernels {
namespace {

// This rank's columns of the logits: ids [first, first + columns), of which `real` are no padding.
struct Part {
  std::int64_t first, columns, real;
  std::int64_t column_of(std::int64_t id) const {
    return id >= first && id < first + real ? id - first : -1;
  }
};

Part part_of(const Launch& launch) {
  const std::int64_t columns = launch.spec.shape[1];
  const std::int64_t first = launch.context.tensor_rank * columns;
  return {first, columns, std::clamp<std::int64_t>(launch.context.vocab - first, 0, columns)};
}

}  // namespace

void loss_max(const Launch& launch) {
  with_storage(launch, launch.spec.dtype, [&](auto type) {
    using T = decltype(type);
    const std::int64_t rows = launch.spec.shape[0];
    const Part part = part_of(launch);
    const auto logits = operand<const T>(launch, 0, rows, part.columns);
    const auto maximum = operand<Compute<T>>(launch, 1, rows, 1);
    for_ranges(launch, rows, row_grain(part.columns), [&](std::int64_t from, std::int64_t to) {
      InRow<T> in(part.columns);
      for (std::int64_t r = from; r < to; ++r)
        maximum.at(r, 0) = largest(in(logits.row(r)), part.real);
    });
  });
}

void loss_sum(const Launch& launch) {
  with_storage(launch, launch.spec.dtype, [&](auto type) {
    using T = decltype(type);
    using C = Compute<T>;
    const std::int64_t rows = launch.spec.shape[0];
    const Part part = part_of(launch);
    const auto logits = operand<const T>(launch, 0, rows, part.columns);
    const Ids ids(launch, 1);
    const auto maximum = operand<const C>(launch, 2, rows, 1);
    const auto sums = operand<C>(launch, 3, rows, 2);
    for_ranges(launch, rows, row_grain(part.columns), [&](std::int64_t from, std::int64_t to) {
      InRow<T> in(part.columns);
      for (std::int64_t r = from; r < to; ++r) {
        const C* x = in(logits.row(r));
        sums.at(r, 0) = sum_of_exp(x, part.real, maximum.at(r, 0));
        const std::int64_t column = part.column_of(ids.target(r));
        sums.at(r, 1) = column < 0 ? C{0} : x[column];
      }
    });
  });
}

void loss_forward(const Launch& launch) {
  with_storage(launch, DType::fp32, [&](auto type) {
    using C = decltype(type);
    const std::int64_t rows = launch.spec.shape[0];
    const Ids ids(launch, 0);
    const auto maximum = operand<const C>(launch, 1, rows, 1);
    const auto sums = operand<const C>(launch, 2, rows, 2);
    const auto loss = operand<C>(launch, 3, 1, 2);
    double total = 0;
    std::int64_t valid = 0;
    for (std::int64_t r = 0; r < rows; ++r) {
      if (ids.target(r) < 0) continue;
      total += static_cast<double>(maximum.at(r, 0)) +
               std::log(static_cast<double>(sums.at(r, 0))) - static_cast<double>(sums.at(r, 1));
      ++valid;
    }
    loss.at(0, 0) += static_cast<C>(total);
    loss.at(0, 1) += static_cast<C>(valid);
  });
}

void loss_backward(const Launch& launch) {
  with_storage(launch, launch.spec.dtype, [&](auto type) {
    using T = decltype(type);
    using C = Compute<T>;
    const std::int64_t rows = launch.spec.shape[0];
    const Part part = part_of(launch);
    const auto logits = operand<const T>(launch, 0, rows, part.columns);
    const Ids ids(launch, 1);
    const auto maximum = operand<const C>(launch, 2, rows, 1);
    const auto sums = operand<const C>(launch, 3, rows, 2);
    const auto grads = operand<T>(launch, 4, rows, part.columns);
    const C weight = static_cast<C>(launch.context.loss_weight);
    for_ranges(launch, rows, row_grain(part.columns), [&](std::int64_t from, std::int64_t to) {
      InRow<T> in(part.columns);
      OutRow<T> out(part.columns);
      for (std::int64_t r = from; r < to; ++r) {
        const C* x = in(logits.row(r));
        C* grad = out.begin(grads.row(r));
        const bool valid = ids.target(r) >= 0;
        std::fill(grad + (valid ? part.real : 0), grad + part.columns, C{0});
        if (valid) {
          const C most = maximum.at(r, 0), factor = weight / sums.at(r, 0);
          map_blocks(x, part.real, grad,
                     [&](const auto& block) { return ((block - most).exp() * factor).eval(); });
          const std::int64_t column = part.column_of(ids.target(r));
          if (column >= 0) grad[column] -= weight;
        }
        out.end(grads.row(r));
      }
    });
  });
}

}  // namespace trainyard::kernels
