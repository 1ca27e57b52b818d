#include "backends/cpu/kernels/dropout.h"

#include "backends/cpu/kernels/bodies.h"

namespace trainyard {

TokenRow token_row(const KernelContext& c, std::int64_t rows, std::int64_t row) {
  check(c.sequence > 0 && (rows == c.tokens || rows * c.tensor_size == c.tokens),
        "{} rows of a micro-batch of {} tokens", rows, c.tokens);
  std::int64_t token = row;
  if (rows != c.tokens) {
    const std::int64_t mine = c.tokens / (c.tensor_size * c.parts);
    token = row / mine * (c.tokens / c.parts) + c.tensor_rank * mine + row % mine;
  }
  const ContextTokens of = c.context_tokens();
  return {c.first_sample + token / of.own(), of.place(c.context_rank, token % of.own())};
}

DropoutDraws::DropoutDraws(const Launch& launch)
    : key_(dropout_key(launch.context.seed, launch.context.step, launch.spec.site)),
      threshold_(dropout_threshold(launch.spec.parameter)),
      scale_(1 / (1 - launch.spec.parameter)) {}

void DropoutDraws::keep(std::int64_t sample, std::int64_t row, std::int64_t first,
                        std::span<std::uint8_t> keep) const {
  for (std::size_t j = 0; j < keep.size(); j += 4) {
    const PhiloxBlock words = dropout_words(key_, sample, row, first / 4 + j / 4);
    for (std::size_t l = 0; l < std::min<std::size_t>(4, keep.size() - j); ++l)
      keep[j + l] = words[l] >= threshold_ ? 1 : 0;
  }
}

namespace kernels {

void dropout_forward(const Launch& launch) {
  const std::int64_t rows = launch.spec.shape[0], columns = launch.spec.shape[1];
  const std::int64_t heads = launch.spec.shape[2], sequence = launch.context.sequence;
  const bool in_place = !has_operand(launch, 2);
  const auto mask = operand<std::uint8_t>(launch, in_place ? 1 : 2, rows, columns);
  const DropoutDraws draws(launch);
  for_ranges(launch, rows, row_grain(columns), [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t r = first; r < last; ++r) {
      TokenRow at;
      if (heads == 0) {
        at = token_row(launch.context, rows, r);
      } else {
        const std::int64_t head = launch.context.tensor_rank * heads + r / sequence % heads;
        at = {launch.context.first_sample + r / (heads * sequence), head * sequence + r % sequence};
      }
      draws.keep(at.sample, at.place, 0, {mask.row(r), static_cast<std::size_t>(columns)});
    }
  });
  with_storage(launch, launch.spec.dtype, [&](auto type) {
    using T = decltype(type);
    apply_mask(launch, View<const std::uint8_t>{mask.data, rows, columns, mask.stride},
               operand<const T>(launch, 0, rows, columns),
               operand<T>(launch, in_place ? 0 : 1, rows, columns));
  });
}

void dropout_backward(const Launch& launch) {
  with_storage(launch, launch.spec.dtype, [&](auto type) {
    using T = decltype(type);
    const std::int64_t rows = launch.spec.shape[0], columns = launch.spec.shape[1];
    apply_mask(launch, operand<const std::uint8_t>(launch, 0, rows, columns),
               operand<const T>(launch, 1, rows, columns), operand<T>(launch, 1, rows, columns));
  });
}

}  // namespace kernels
}  // namespace trainyard
