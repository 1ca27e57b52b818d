#include "backends/common/token_writer.h"

#include <fmt/core.h>

#include <cstring>
#include <limits>

#include "backends/common/file_writer.h"
#include "core/error.h"

namespace trainyard {
namespace {

TokenType narrowest(std::int64_t vocab) {
  return vocab <= 1 << 16 ? TokenType::uint16 : TokenType::uint32;
}

// Tokens of one width at the end of a file.
class TokenColumn {
 public:
  TokenColumn(FileWriter& file, std::string name, TokenType type)
      : file_(file), name_(std::move(name)), type_(type) {}

  void append(std::span<const std::int32_t> tokens) {
    const std::int64_t width = size_of(type_), limit = std::int64_t{1} << (8 * width);
    std::vector<std::byte> stored(tokens.size() * width);
    std::byte* at = stored.data();
    for (const std::int32_t token : tokens) {
      if (token < 0 || token >= limit)
        throw ConfigError(
            fmt::format("{}: token {} does not fit {} bytes a token", name_, token, width));
      // Little-endian, as the formats are and the machines that are supported.
      std::memcpy(at, &token, static_cast<std::size_t>(width));
      at += width;
    }
    file_.write(stored);
    count_ += static_cast<std::int64_t>(tokens.size());
  }
  std::int64_t count() const { return count_; }
  TokenType type() const { return type_; }

 private:
  FileWriter& file_;
  std::string name_;
  TokenType type_;
  std::int64_t count_ = 0;
};

class BytesWriter : public TokenWriter {
 public:
  explicit BytesWriter(const std::filesystem::path& path)
      : file_(path), tokens_(file_, path.string(), TokenType::uint8) {}
  void append(std::span<const std::int32_t> tokens) override { tokens_.append(tokens); }
  void end_document() override {}
  void finish() override { file_.close(); }

 private:
  FileWriter file_;
  TokenColumn tokens_;
};

class LlmcWriter : public TokenWriter {
 public:
  LlmcWriter(const std::filesystem::path& path, std::int64_t vocab)
      : path_(path), file_(path), tokens_(file_, path.string(), narrowest(vocab)) {
    file_.write(std::vector<std::byte>(kLlmcHeaderBytes));
  }
  void append(std::span<const std::int32_t> tokens) override { tokens_.append(tokens); }
  void end_document() override {}
  void finish() override {
    if (tokens_.count() > std::numeric_limits<std::int32_t>::max())
      throw ConfigError(fmt::format(
          "{}: {} tokens are more than an llm.c file can count; split it, or write megatron",
          path_.string(), tokens_.count()));
    LlmcHeader header = tokens_.type() == TokenType::uint16 ? kLlmcUint16 : kLlmcUint32;
    header.tokens = static_cast<std::int32_t>(tokens_.count());
    file_.rewrite(0, std::as_bytes(std::span(&header, 1)));
    file_.close();
  }

 private:
  std::filesystem::path path_;
  FileWriter file_;
  TokenColumn tokens_;
};

// Every document is one sequence.
class MegatronWriter : public TokenWriter {
 public:
  MegatronWriter(const std::filesystem::path& path, std::int64_t vocab)
      : paths_(megatron_paths(path)),
        data_(paths_.data),
        index_(paths_.index),
        // Megatron-LM knows no uint32.
        tokens_(data_, paths_.data.string(),
                vocab <= 1 << 16 ? TokenType::uint16 : TokenType::int32) {}

  void append(std::span<const std::int32_t> tokens) override { tokens_.append(tokens); }

  void end_document() override {
    const std::int64_t length = tokens_.count() - starts_.back();
    if (length > std::numeric_limits<std::int32_t>::max())
      throw ConfigError(fmt::format("{}: a document of {} tokens is too long for the format",
                                    paths_.data.string(), length));
    if (length > 0) starts_.push_back(tokens_.count());
  }

  void finish() override {
    end_document();
    data_.close();
    write_index();
    index_.close();
  }

 private:
  template <class T>
  void put(T value) {
    index_.write(std::as_bytes(std::span(&value, 1)));
  }

  void write_index() {
    const std::size_t sequences = starts_.size() - 1;
    index_.write(kMegatronMagic);
    put(kMegatronVersion);
    for (const MegatronType& t : kMegatronTypes)
      if (t.type == tokens_.type()) put(t.code);
    put(static_cast<std::uint64_t>(sequences));
    put(static_cast<std::uint64_t>(sequences + 1));
    for (std::size_t i = 0; i < sequences; ++i)
      put(static_cast<std::int32_t>(starts_[i + 1] - starts_[i]));
    for (std::size_t i = 0; i < sequences; ++i) put(starts_[i] * size_of(tokens_.type()));
    for (std::size_t i = 0; i <= sequences; ++i) put(static_cast<std::int64_t>(i));
  }

  MegatronPaths paths_;
  FileWriter data_, index_;
  TokenColumn tokens_;
  std::vector<std::int64_t> starts_{0};
};

}  // namespace

std::unique_ptr<TokenWriter> make_token_writer(TokenFormat format,
                                               const std::filesystem::path& path,
                                               std::int64_t vocab) {
  switch (format) {
    case TokenFormat::bytes:
      return std::make_unique<BytesWriter>(path);
    case TokenFormat::llmc:
      return std::make_unique<LlmcWriter>(path, vocab);
    case TokenFormat::megatron:
      return std::make_unique<MegatronWriter>(path, vocab);
  }
  return nullptr;
}

}  // namespace trainyard
