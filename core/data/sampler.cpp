#include "core/data/sampler.h"

#include <fmt/core.h>

#include "core/data/permutation.h"
#include "core/error.h"

namespace trainyard {

std::vector<std::int64_t> next_samples(SamplerState& state, std::int64_t count) {
  check(state.samples > 0, "a data set without samples");
  std::vector<std::int64_t> samples;
  samples.reserve(static_cast<std::size_t>(count));
  while (count > 0) {
    const Permutation order(random_key(state.seed, fmt::format("sample order {}", state.epoch)),
                            state.samples);
    for (; count > 0 && state.position < state.samples; --count)
      samples.push_back(order(state.position++));
    skip_samples(state, 0);
  }
  return samples;
}

void skip_samples(SamplerState& state, std::int64_t count) {
  check(state.samples > 0, "a data set without samples");
  const std::int64_t place = state.position + count;
  state.epoch += place / state.samples;
  state.position = place % state.samples;
}

RowRange rows_of(std::int64_t global_rows, std::int64_t data_ranks, std::int64_t data_rank) {
  check(global_rows % data_ranks == 0, "{} rows over {} data ranks", global_rows, data_ranks);
  const std::int64_t count = global_rows / data_ranks;
  return {data_rank * count, count};
}

}  // namespace trainyard
