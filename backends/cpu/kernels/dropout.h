#pragma once
#include <cstdint>
#include <span>

#include "backends/cpu/kernels/rows.h"
#include "core/random.h"

namespace trainyard {

// Where a token is: its sequence among all of the global batch, and its place in it.
struct TokenRow {
  std::int64_t sample, place;
};

// Token of row `row` of an activation with `rows` rows. A buffer of all T rows is in order; a
// sequence shard of T / t rows holds the rank's share of each of `parts` row blocks.
TokenRow token_row(const KernelContext& context, std::int64_t rows, std::int64_t row);

// Draws of one dropout kernel.
class DropoutDraws {
 public:
  explicit DropoutDraws(const Launch& launch);
  bool any() const { return threshold_ > 0; }
  double scale() const { return scale_; }  // 1 / (1 - p)
  // keep[j] = 1 if column first + j of the row is kept, else 0; first is a multiple of 4. `row` is
  // the place in the sequence, or head * sequence + query for attention probabilities.
  void keep(std::int64_t sample, std::int64_t row, std::int64_t first,
            std::span<std::uint8_t> keep) const;

 private:
  PhiloxKey key_;
  std::uint32_t threshold_;
  double scale_;
};

// to = from / (1 - p) where the mask is set, else 0; `to` may be `from`.
template <class T>
void apply_mask(const Launch& launch, View<const std::uint8_t> mask, View<const T> from,
                View<T> to) {
  using C = Compute<T>;
  const C scale = static_cast<C>(1 / (1 - launch.spec.parameter));
  for_ranges(launch, to.rows, row_grain(to.columns), [&](std::int64_t first, std::int64_t last) {
    InRow<T> in(to.columns);
    OutRow<T> out(to.columns);
    for (std::int64_t r = first; r < last; ++r) {
      const std::uint8_t* keep = mask.row(r);
      const C* x = in(from.row(r));
      C* y = out.begin(to.row(r));
      for (std::int64_t j = 0; j < to.columns; ++j) y[j] = keep[j] != 0 ? x[j] * scale : C{0};
      out.end(to.row(r));
    }
  });
}

}  // namespace trainyard
