#include "backends/common/batch_feeds.h"

#include <fmt/format.h>

#include <algorithm>

#include "backends/common/patience.h"
#include "core/data/tokens.h"
#include "core/error.h"

namespace trainyard {
namespace {

LoaderShape shape_of(const Job& job, const std::vector<RankId>& ranks) {
  LoaderShape shape;
  shape.global_rows = job.batch.global_sequences;
  shape.data_ranks = job.parallel.data;
  shape.processes = static_cast<std::int32_t>(ranks.size());
  shape.node_data_ranks.clear();
  const Mesh mesh = job.mesh();
  for (const RankId rank : ranks) {
    const std::int32_t data = mesh.coord(rank)[Axis::data];
    if (std::ranges::find(shape.node_data_ranks, data) == shape.node_data_ranks.end())
      shape.node_data_ranks.push_back(data);
  }
  std::ranges::sort(shape.node_data_ranks);
  return shape;
}

}  // namespace

std::int64_t count_targets(std::span<const std::int32_t> rows, std::int64_t sequence) {
  std::int64_t count = 0;
  for (std::size_t i = 0; i < rows.size(); ++i)
    if (i % static_cast<std::size_t>(sequence + 1) != 0 && is_target(rows[i])) ++count;
  return count;
}

Dataset open_dataset(const Job& job) {
  if (job.data.files.empty())
    throw ConfigError("data.files is missing: training needs at least one file of tokens");
  DatasetOptions options;
  for (const std::string& file : job.data.files) options.files.emplace_back(file);
  if (job.data.format != "auto") options.format = token_format_of(job.data.format);
  options.vocab = job.model.vocab;
  options.sequence = job.batch.sequence_length;
  options.validation = job.data.validation;
  options.separate_documents = job.data.separate_documents;
  return Dataset(std::move(options));
}

TrainingFeed::TrainingFeed(const Job& job, const Dataset& dataset, RankId rank, const Node& node,
                           Store* store)
    : job_(job), dataset_(dataset), rank_(rank), node_(node), store_(store) {}

void TrainingFeed::start(std::int64_t step, const SamplerState& state) {
  next_ = step;
  const LoaderShape shape = shape_of(job_, node_.reading_ranks);
  const std::string key = fmt::format("loader/{}", node_.first_rank);
  std::string address;
  if (index(rank_) == node_.first_rank) {
    reader_ = std::make_unique<BatchReader>(dataset_, state, shape);
    address = reader_->address();
    if (store_ != nullptr) store_->set(key, address);
  }
  const auto own = std::ranges::find(node_.reading_ranks, rank_);
  if (own == node_.reading_ranks.end()) return;
  if (address.empty()) address = wait_for(*store_, std::span(&key, 1), timeout_of(job_)).front();
  const Loader::Place place{static_cast<std::int32_t>(own - node_.reading_ranks.begin()),
                            job_.mesh().coord(rank_)[Axis::data]};
  loader_ = std::make_unique<Loader>(address, shape, place, state);
}

std::span<const std::int32_t> TrainingFeed::batch(std::int64_t step) {
  check(loader_ != nullptr, "rank {} loads no tokens", index(rank_));
  check(step >= next_ - 2 && step <= next_, "batch {} is asked for when {} comes next", step,
        next_);
  std::vector<std::int32_t>& rows = rows_[static_cast<std::size_t>(step % 2)];
  if (step == next_) {
    const auto read = loader_->next(timeout_of(job_));
    rows.assign(read.begin(), read.end());
    ++next_;
  }
  return rows;
}

ValidationFeed::ValidationFeed(const Job& job, const Dataset& dataset, std::int32_t data_rank,
                               std::int64_t sequences)
    : dataset_(dataset),
      global_rows_(job.batch.global_sequences),
      sequences_(sequences),
      own_(rows_of(global_rows_, job.parallel.data, data_rank)),
      rows_(static_cast<std::size_t>(own_.count * (dataset.sequence() + 1))) {}

std::span<const std::int32_t> ValidationFeed::batch(std::int64_t step) {
  const auto width = static_cast<std::size_t>(dataset_.sequence() + 1);
  for (std::int64_t r = 0; r < own_.count; ++r) {
    const std::int64_t sample = step * global_rows_ + own_.first + r;
    const auto row = std::span(rows_).subspan(static_cast<std::size_t>(r) * width, width);
    if (sample < sequences_)
      dataset_.read(Split::validation, sample, row);
    else
      std::ranges::fill(row, kPaddingToken);
  }
  return rows_;
}

}  // namespace trainyard
