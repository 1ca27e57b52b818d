#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace trainyard {

using TokenSink = std::function<void(std::span<const std::int32_t>)>;

// Turns text into token ids.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;
  virtual std::int64_t vocab() const = 0;
  // Hands the ids to `sink` in order, in pieces of any length.
  virtual void encode(std::string_view text, const TokenSink& sink) const = 0;
  // The bytes that ids stand for. Throws ConfigError for an id outside the vocabulary.
  virtual std::string decode(std::span<const std::int32_t> ids) const = 0;
  // The id that stands between documents, if the vocabulary has one.
  virtual std::optional<std::int32_t> document_token() const = 0;
};

// A token a byte.
std::unique_ptr<Tokenizer> make_byte_tokenizer();

// GPT-2's byte-pair encoding (Radford et al. 2019, section 2.2) from its vocab.json and merges.txt.
// Throws ConfigError naming file and line when they are unusable.
std::unique_ptr<Tokenizer> make_gpt2_tokenizer(const std::filesystem::path& vocab,
                                               const std::filesystem::path& merges);

}  // namespace trainyard
