#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "backends/common/token_file.h"

namespace trainyard {

enum class Split : std::uint8_t { training, validation };

struct DatasetOptions {
  std::vector<std::filesystem::path> files{};  // one after the other
  std::optional<TokenFormat> format{};         // empty: found out per file
  std::int64_t vocab = 0;                      // 0: not checked
  std::int64_t sequence = 1;
  double validation = 0;            // fraction of the samples, from the end
  bool separate_documents = false;  // the first token of a document is no target
};

// Token files cut into samples: sample i of a file has the tokens i * sequence … (i + 1) *
// sequence, so that every token but a file's first is a target once. A file's last sample is filled
// up with padding that is no target.
class Dataset {
 public:
  // Throws ConfigError when a file is unusable or a split that was asked for has no sample.
  explicit Dataset(DatasetOptions options);

  std::int64_t sequence() const { return options_.sequence; }
  std::int64_t samples(Split split) const;
  // Fills a row of sequence + 1 ids (core/data/tokens.h). Validation samples from
  // samples(validation) on are padding alone, so that the last batch can be filled up.
  void read(Split split, std::int64_t sample, std::span<std::int32_t> row) const;

 private:
  DatasetOptions options_;
  std::vector<TokenFile> files_;
  std::vector<std::int64_t> first_sample_;  // of each file, and the end of the last
  std::int64_t training_ = 0;
};

}  // namespace trainyard
