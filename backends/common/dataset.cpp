#include "backends/common/dataset.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "core/data/tokens.h"
#include "core/error.h"

namespace trainyard {

Dataset::Dataset(DatasetOptions options) : options_(std::move(options)) {
  check(options_.sequence > 0, "samples of {} tokens", options_.sequence);
  if (options_.files.empty()) throw ConfigError("no token file is given");
  first_sample_.push_back(0);
  for (const std::filesystem::path& path : options_.files) {
    const TokenFile& file = files_.emplace_back(path, options_.vocab, options_.format);
    if (file.tokens() < 2)
      throw ConfigError(fmt::format("{}: has {} tokens, at least 2 make a sample",
                                    file.path().string(), file.tokens()));
    const std::int64_t samples = (file.tokens() - 1 + options_.sequence - 1) / options_.sequence;
    first_sample_.push_back(first_sample_.back() + samples);
  }
  const std::int64_t all = first_sample_.back();
  const auto validation =
      static_cast<std::int64_t>(std::ceil(options_.validation * static_cast<double>(all)));
  training_ = all - validation;
  if (training_ <= 0)
    throw ConfigError(fmt::format(
        "{}: {} samples of {} tokens leave none to train on when a fraction of {} is set aside",
        options_.files.front().string(), all, options_.sequence, options_.validation));
}

std::int64_t Dataset::samples(Split split) const {
  return split == Split::training ? training_ : first_sample_.back() - training_;
}

void Dataset::read(Split split, std::int64_t sample, std::span<std::int32_t> row) const {
  check(static_cast<std::int64_t>(row.size()) == options_.sequence + 1, "a row of {} ids for {}",
        row.size(), options_.sequence);
  check(sample >= 0 && (split == Split::validation || sample < training_), "sample {} of {}",
        sample, training_);
  std::fill(row.begin(), row.end(), kPaddingToken);
  if (split == Split::validation) sample += training_;
  if (sample >= first_sample_.back()) return;

  const auto after = std::upper_bound(first_sample_.begin(), first_sample_.end(), sample);
  const TokenFile& file = files_[after - first_sample_.begin() - 1];
  const std::int64_t first = (sample - *(after - 1)) * options_.sequence;
  const std::int64_t count = std::min(options_.sequence + 1, file.tokens() - first);
  file.read(first, row.first(count));
  if (!options_.separate_documents) return;
  const auto& documents = file.documents();
  for (auto d = std::upper_bound(documents.begin(), documents.end(), first);
       d != documents.end() && *d < first + count; ++d)
    row[*d - first] = not_a_target(row[*d - first]);
}

}  // namespace trainyard
