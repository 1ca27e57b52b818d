#include <fmt/core.h>

#include <array>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <unordered_map>
#include <vector>

#include "backends/common/gpt2_words.h"
#include "backends/common/tokenizer.h"
#include "core/error.h"

namespace trainyard {
namespace {

constexpr std::string_view kDocumentToken = "<|endoftext|>";
constexpr std::size_t kFlush = 1 << 16;       // ids handed on at once
constexpr std::size_t kRemembered = 1 << 20;  // words whose ids are kept
constexpr std::size_t kLongestKept = 64;      // bytes of such a word
constexpr std::uint32_t kNoRank = std::numeric_limits<std::uint32_t>::max();

// GPT-2 writes each byte as a printable character: itself where it is one in Latin-1, else the
// next free character from U+0100 on.
struct ByteAlphabet {
  std::array<std::string, 256> text;  // UTF-8 of each byte's character
  std::unordered_map<std::string, char> byte_of;

  ByteAlphabet() {
    int next = 0x100;
    for (int byte = 0; byte < 256; ++byte) {
      const bool printable = (byte >= '!' && byte <= '~') || (byte >= 0xa1 && byte <= 0xac) ||
                             (byte >= 0xae && byte <= 0xff);
      const int c = printable ? byte : next++;
      std::string& utf8 = text[byte];
      if (c < 0x80)
        utf8 = static_cast<char>(c);
      else
        utf8 = {static_cast<char>(0xc0 | c >> 6), static_cast<char>(0x80 | (c & 0x3f))};
      byte_of[utf8] = static_cast<char>(byte);
    }
  }

  // The bytes that a vocabulary entry stands for; an entry with other characters is left as it is.
  std::string bytes_of(const std::string& entry) const {
    std::string bytes;
    for (std::size_t i = 0; i < entry.size();) {
      const std::size_t length = static_cast<unsigned char>(entry[i]) < 0x80 ? 1 : 2;
      const auto found = byte_of.find(entry.substr(i, length));
      if (found == byte_of.end()) return entry;
      bytes.push_back(found->second);
      i += length;
    }
    return bytes;
  }
};

struct Merge {
  std::uint32_t rank = kNoRank;
  std::int32_t merged = 0;
};

class Gpt2Tokenizer : public Tokenizer {
 public:
  Gpt2Tokenizer(const std::filesystem::path& vocab, const std::filesystem::path& merges) {
    read_vocab(vocab);
    read_merges(merges);
  }

  std::int64_t vocab() const override { return static_cast<std::int64_t>(text_.size()); }

  void encode(std::string_view text, const TokenSink& sink) const override {
    std::unordered_map<std::string_view, std::vector<std::int32_t>> known;
    std::vector<std::int32_t> ids;
    while (!text.empty()) {
      const std::string_view word = text.substr(0, gpt2_word(text));
      text.remove_prefix(word.size());
      auto found = known.find(word);
      if (found == known.end() && word.size() <= kLongestKept && known.size() < kRemembered)
        found = known.emplace(word, encode_word(word)).first;
      const std::vector<std::int32_t> fresh =
          found == known.end() ? encode_word(word) : std::vector<std::int32_t>{};
      const auto& encoded = found == known.end() ? fresh : found->second;
      ids.insert(ids.end(), encoded.begin(), encoded.end());
      if (ids.size() < kFlush && !text.empty()) continue;
      sink(ids);
      ids.clear();
    }
  }

  std::string decode(std::span<const std::int32_t> ids) const override {
    std::string text;
    for (const std::int32_t id : ids) {
      if (id < 0 || id >= vocab())
        throw ConfigError(fmt::format("token {} is outside the vocabulary of {}", id, vocab()));
      text += text_[id];
    }
    return text;
  }

  std::optional<std::int32_t> document_token() const override { return document_token_; }

 private:
  void read_vocab(const std::filesystem::path& path);
  void read_merges(const std::filesystem::path& path);
  std::vector<std::int32_t> encode_word(std::string_view word) const;

  static std::uint64_t pair_key(std::int32_t first, std::int32_t second) {
    return static_cast<std::uint64_t>(first) << 32 | static_cast<std::uint32_t>(second);
  }
  Merge merge_of(std::int32_t first, std::int32_t second) const {
    const auto found = merges_.find(pair_key(first, second));
    return found == merges_.end() ? Merge{} : found->second;
  }

  std::unordered_map<std::string, std::int32_t> ids_;  // by vocabulary entry
  std::vector<std::string> text_;                      // bytes, by id
  std::array<std::int32_t, 256> byte_ids_{};
  std::unordered_map<std::uint64_t, Merge> merges_;
  std::optional<std::int32_t> document_token_;
};

void Gpt2Tokenizer::read_vocab(const std::filesystem::path& path) {
  std::ifstream file(path);
  if (!file) throw ConfigError(fmt::format("{}: cannot be opened", path.string()));
  const nlohmann::json json = nlohmann::json::parse(file, nullptr, false);
  if (!json.is_object() || json.empty())
    throw ConfigError(fmt::format("{}: is not a JSON object of tokens and ids", path.string()));
  const ByteAlphabet alphabet;
  text_.resize(json.size());
  std::vector<bool> given(json.size(), false);
  for (const auto& [entry, id] : json.items()) {
    const auto size = static_cast<std::int64_t>(json.size());
    if (!id.is_number_integer() || id < 0 || id >= size || given[id.get<std::size_t>()])
      throw ConfigError(fmt::format("{}: the id of \"{}\" is {}, expected each of 0 to {} once",
                                    path.string(), entry, id.dump(), size - 1));
    given[id.get<std::size_t>()] = true;
    ids_[entry] = id.get<std::int32_t>();
    text_[id.get<std::size_t>()] = entry == kDocumentToken ? entry : alphabet.bytes_of(entry);
  }
  for (int byte = 0; byte < 256; ++byte) {
    const auto found = ids_.find(alphabet.text[byte]);
    if (found == ids_.end())
      throw ConfigError(fmt::format("{}: has no entry \"{}\" for byte {}", path.string(),
                                    alphabet.text[byte], byte));
    byte_ids_[byte] = found->second;
  }
  const auto document = ids_.find(std::string(kDocumentToken));
  if (document != ids_.end()) document_token_ = document->second;
}

void Gpt2Tokenizer::read_merges(const std::filesystem::path& path) {
  std::ifstream file(path);
  if (!file) throw ConfigError(fmt::format("{}: cannot be opened", path.string()));
  std::string line;
  std::uint32_t rank = 0;
  for (int number = 1; std::getline(file, line); ++number) {
    if (line.ends_with('\r')) line.pop_back();
    if (line.empty() || (number == 1 && line.starts_with("#version"))) continue;
    const std::size_t blank = line.find(' ');
    if (blank == std::string::npos || line.find(' ', blank + 1) != std::string::npos)
      throw ConfigError(
          fmt::format("{}:{}: expected two tokens and a blank between them, found "
                      "\"{}\"",
                      path.string(), number, line));
    const std::string first = line.substr(0, blank), second = line.substr(blank + 1);
    const auto a = ids_.find(first), b = ids_.find(second), both = ids_.find(first + second);
    if (a == ids_.end() || b == ids_.end() || both == ids_.end())
      throw ConfigError(fmt::format("{}:{}: \"{}\" is not in the vocabulary", path.string(), number,
                                    a == ids_.end()   ? first
                                    : b == ids_.end() ? second
                                                      : first + second));
    merges_.try_emplace(pair_key(a->second, b->second), Merge{rank++, both->second});
  }
}

// Merges the pair of lowest rank wherever it stands, until no pair has a rank.
std::vector<std::int32_t> Gpt2Tokenizer::encode_word(std::string_view word) const {
  std::vector<std::int32_t> ids;
  for (const char c : word) ids.push_back(byte_ids_[static_cast<unsigned char>(c)]);
  while (ids.size() > 1) {
    Merge best;
    std::int32_t first = 0, second = 0;
    for (std::size_t i = 0; i + 1 < ids.size(); ++i) {
      const Merge merge = merge_of(ids[i], ids[i + 1]);
      if (merge.rank < best.rank) best = merge, first = ids[i], second = ids[i + 1];
    }
    if (best.rank == kNoRank) break;
    std::size_t kept = 0;
    for (std::size_t i = 0; i < ids.size(); ++kept) {
      const bool pair = i + 1 < ids.size() && ids[i] == first && ids[i + 1] == second;
      ids[kept] = pair ? best.merged : ids[i];
      i += pair ? 2 : 1;
    }
    ids.resize(kept);
  }
  return ids;
}

}  // namespace

std::unique_ptr<Tokenizer> make_gpt2_tokenizer(const std::filesystem::path& vocab,
                                               const std::filesystem::path& merges) {
  return std::make_unique<Gpt2Tokenizer>(vocab, merges);
}

}  // namespace trainyard
