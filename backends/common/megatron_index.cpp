#include "backends/common/megatron_index.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstring>

#include "core/error.h"

namespace trainyard {
namespace {

constexpr std::int64_t kVersionAt = 9, kTypeAt = 17, kSequencesAt = 18, kBoundsAt = 26,
                       kTablesAt = 34;

class IndexReader {
 public:
  explicit IndexReader(const std::filesystem::path& path) : file_(path) {}

  MegatronIndex read() {
    read_header();
    MegatronIndex index;
    index.type = type_;
    const std::vector<std::int64_t> starts = sequence_starts();
    index.tokens = starts.back();
    index.documents = documents(starts);
    return index;
  }

 private:
  template <class T>
  T at(std::int64_t offset) const {
    return load_as<T>(file_.bytes().data() + offset);
  }

  template <class... Args>
  [[noreturn]] void refuse(std::int64_t offset, fmt::format_string<Args...> text,
                           Args&&... args) const {
    throw ConfigError(fmt::format("{}: offset {}: {}", file_.path().string(), offset,
                                  fmt::format(text, std::forward<Args>(args)...)));
  }

  void read_header() {
    if (file_.size() < kTablesAt)
      refuse(0, "the header of a Megatron index has {} bytes, this file has {}", kTablesAt,
             file_.size());
    if (std::memcmp(file_.bytes().data(), kMegatronMagic.data(), kMegatronMagic.size()) != 0)
      refuse(0, "expected the magic MMIDIDX of a Megatron index, found other bytes");
    const auto version = at<std::uint64_t>(kVersionAt);
    if (version != kMegatronVersion)
      refuse(kVersionAt, "expected version {}, found {}", kMegatronVersion, version);
    const auto code = at<std::uint8_t>(kTypeAt);
    const auto* type = std::find_if(std::begin(kMegatronTypes), std::end(kMegatronTypes),
                                    [&](const MegatronType& t) { return t.code == code; });
    if (type == std::end(kMegatronTypes))
      refuse(kTypeAt, "expected a code of an integer type (1 to 5, or 8), found {}", code);
    type_ = type->type;
    sequences_ = at<std::int64_t>(kSequencesAt);
    bounds_ = at<std::int64_t>(kBoundsAt);
    // Bounded first, so that the products below cannot overflow.
    const std::int64_t most = file_.size();
    if (sequences_ < 0 || sequences_ > most)
      refuse(kSequencesAt, "{} sequences do not fit a file of {} bytes", sequences_, most);
    if (bounds_ < 0 || bounds_ > most)
      refuse(kBoundsAt, "{} document bounds do not fit a file of {} bytes", bounds_, most);
    const std::int64_t expected = kTablesAt + sequences_ * (4 + 8) + bounds_ * 8;
    if (file_.size() != expected)
      refuse(kSequencesAt, "{} sequences and {} document bounds need {} bytes, the file has {}",
             sequences_, bounds_, expected, file_.size());
  }

  // First token of each sequence, and the end of the last.
  std::vector<std::int64_t> sequence_starts() const {
    const std::int64_t pointers_at = kTablesAt + sequences_ * 4;
    std::vector<std::int64_t> starts{0};
    starts.reserve(static_cast<std::size_t>(sequences_) + 1);
    for (std::int64_t i = 0; i < sequences_; ++i) {
      const auto length = at<std::int32_t>(kTablesAt + i * 4);
      if (length < 0) refuse(kTablesAt + i * 4, "sequence {} has length {}", i, length);
      const auto pointer = at<std::int64_t>(pointers_at + i * 8);
      const std::int64_t expected = starts.back() * size_of(type_);
      if (pointer != expected)
        refuse(pointers_at + i * 8, "expected sequence {} at byte {} of the data, found {}", i,
               expected, pointer);
      starts.push_back(starts.back() + length);
    }
    return starts;
  }

  std::vector<std::int64_t> documents(const std::vector<std::int64_t>& starts) const {
    const std::int64_t table = kTablesAt + sequences_ * (4 + 8);
    std::vector<std::int64_t> firsts;
    std::int64_t previous = 0;
    for (std::int64_t i = 0; i < bounds_; ++i) {
      const auto bound = at<std::int64_t>(table + i * 8);
      if (bound < previous || bound > sequences_ || (i == 0 && bound != 0))
        refuse(table + i * 8, "document bound {} is {}, expected {} to {}", i, bound, previous,
               i == 0 ? 0 : sequences_);
      previous = bound;
      const std::int64_t first = starts[static_cast<std::size_t>(bound)];
      if (first < starts.back() && (firsts.empty() || first > firsts.back()))
        firsts.push_back(first);
    }
    if (firsts.empty()) firsts.push_back(0);
    return firsts;
  }

  MappedFile file_;
  TokenType type_{};
  std::int64_t sequences_ = 0, bounds_ = 0;
};

}  // namespace

MegatronIndex read_megatron_index(const std::filesystem::path& path) {
  return IndexReader(path).read();
}

}  // namespace trainyard
