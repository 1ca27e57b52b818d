#pragma once
#include <cstdint>
#include <vector>

namespace trainyard {

// Which samples of a data set come next. All that a run needs to go on with the very next sample:
// it does not mention ranks, so any layout can go on from it.
struct SamplerState {
  std::uint64_t seed = 1;
  std::int64_t samples = 0;  // in the data set
  std::int64_t epoch = 0, position = 0;
  bool operator==(const SamplerState&) const = default;
};

// Samples of the next `count` places of the shuffled order, epoch after epoch, each sample once an
// epoch; moves `state` on.
std::vector<std::int64_t> next_samples(SamplerState& state, std::int64_t count);

// Moves on without computing the samples.
void skip_samples(SamplerState& state, std::int64_t count);

// Rows of the global batch that data rank `data_rank` of `data_ranks` trains on: a contiguous
// share, micro-batch after micro-batch, so its row i is global row first + i.
struct RowRange {
  std::int64_t first = 0, count = 0;
};
RowRange rows_of(std::int64_t global_rows, std::int64_t data_ranks, std::int64_t data_rank);

}  // namespace trainyard
