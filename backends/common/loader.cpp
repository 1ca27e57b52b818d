#include "backends/common/loader.h"

#include <algorithm>

#include "core/error.h"

namespace trainyard {
namespace {

std::int64_t rows_per_rank(const LoaderShape& shape) {
  return rows_of(shape.global_rows, shape.data_ranks, 0).count;
}

RingShape ring_of(const LoaderShape& shape, std::int64_t row) {
  const auto rows = static_cast<std::int64_t>(shape.node_data_ranks.size()) * rows_per_rank(shape);
  return {shape.queued, shape.processes, rows * row};
}

}  // namespace

BatchReader::BatchReader(const Dataset& dataset, const SamplerState& first, LoaderShape shape)
    : dataset_(dataset),
      state_(first),
      shape_(std::move(shape)),
      ring_(BatchRing::create(ring_of(shape_, dataset.sequence() + 1))) {
  if (state_.samples != dataset.samples(Split::training))
    throw ConfigError(fmt::format(
        "the data has {} samples to train on, but {} when the sample order was started: go on with "
        "the same token files, sequence length and validation split",
        dataset.samples(Split::training), state_.samples));
  thread_ = std::thread([this] { run(); });
}

BatchReader::~BatchReader() {
  ring_.close();
  thread_.join();
}

void BatchReader::fill(std::span<std::int32_t> batch) {
  const std::vector<std::int64_t> samples = next_samples(state_, shape_.global_rows);
  const auto row = static_cast<std::size_t>(dataset_.sequence() + 1);
  for (const std::int32_t rank : shape_.node_data_ranks) {
    const RowRange rows = rows_of(shape_.global_rows, shape_.data_ranks, rank);
    for (std::int64_t i = 0; i < rows.count; ++i, batch = batch.subspan(row))
      dataset_.read(Split::training, samples[rows.first + i], batch.first(row));
  }
}

void BatchReader::run() {
  try {
    for (std::int64_t step = 0;; ++step) {
      const std::span<std::int32_t> batch = ring_.wait_free(step);
      if (batch.empty()) return;
      fill(batch);
      ring_.publish(step);
    }
  } catch (const std::exception& error) {
    ring_.fail(error.what());
  }
}

Loader::Loader(const std::string& address, const LoaderShape& shape, Place place,
               const SamplerState& first)
    : shape_(shape), place_(place), state_(first), ring_(BatchRing::attach(address)) {
  const auto& ranks = shape_.node_data_ranks;
  check(std::find(ranks.begin(), ranks.end(), place.data_rank) != ranks.end(),
        "data rank {} is not on this node", place.data_rank);
}

std::span<const std::int32_t> Loader::next(std::chrono::milliseconds timeout) {
  if (batches_ > 0) ring_.release(place_.process, batches_ - 1);
  const auto start = std::chrono::steady_clock::now();
  const std::span<const std::int32_t> batch = ring_.wait_filled(batches_, timeout);
  waited_ +=
      nanoseconds(std::chrono::nanoseconds(std::chrono::steady_clock::now() - start).count());
  ++batches_;
  skip_samples(state_, shape_.global_rows);
  const auto& ranks = shape_.node_data_ranks;
  const auto index = std::find(ranks.begin(), ranks.end(), place_.data_rank) - ranks.begin();
  const std::size_t share = batch.size() / ranks.size();
  return batch.subspan(index * share, share);
}

}  // namespace trainyard
