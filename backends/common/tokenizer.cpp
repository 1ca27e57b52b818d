#include "backends/common/tokenizer.h"

#include <fmt/core.h>

#include <algorithm>
#include <vector>

#include "core/error.h"

namespace trainyard {
namespace {

class ByteTokenizer : public Tokenizer {
 public:
  std::int64_t vocab() const override { return 256; }

  void encode(std::string_view text, const TokenSink& sink) const override {
    constexpr std::size_t kPiece = 1 << 16;
    std::vector<std::int32_t> ids;
    for (; !text.empty(); text.remove_prefix(std::min(kPiece, text.size()))) {
      ids.clear();
      for (const char c : text.substr(0, kPiece)) ids.push_back(static_cast<unsigned char>(c));
      sink(ids);
    }
  }

  std::string decode(std::span<const std::int32_t> ids) const override {
    std::string text;
    for (const std::int32_t id : ids) {
      if (id < 0 || id > 255) throw ConfigError(fmt::format("token {} is no byte", id));
      text.push_back(static_cast<char>(id));
    }
    return text;
  }

  std::optional<std::int32_t> document_token() const override { return std::nullopt; }
};

}  // namespace

std::unique_ptr<Tokenizer> make_byte_tokenizer() { return std::make_unique<ByteTokenizer>(); }

}  // namespace trainyard
