#include "backends/common/token_file.h"

#include <fmt/core.h>

#include <array>
#include <cstring>
#include <limits>

#include "backends/common/megatron_index.h"
#include "core/error.h"

namespace trainyard {
namespace {

constexpr std::array<std::string_view, 3> kFormatNames{"bytes", "llmc", "megatron"};

bool has_llmc_magic(const MappedFile& file) {
  if (file.size() < 4) return false;
  const auto magic = load_as<std::int32_t>(file.bytes().data());
  return magic == kLlmcUint16.magic || magic == kLlmcUint32.magic;
}

TokenFormat find_format(const std::filesystem::path& path) {
  std::error_code ignored;
  if (path.extension() == ".idx" || std::filesystem::exists(megatron_paths(path).index, ignored))
    return TokenFormat::megatron;
  // A .bin is never meant as text, so a wrong magic in it is reported.
  if (path.extension() == ".bin" || has_llmc_magic(MappedFile(path))) return TokenFormat::llmc;
  return TokenFormat::bytes;
}

}  // namespace

std::string_view token_format_name(TokenFormat format) {
  return kFormatNames[static_cast<std::size_t>(format)];
}

TokenFormat token_format_of(std::string_view name) {
  for (std::size_t i = 0; i < kFormatNames.size(); ++i)
    if (kFormatNames[i] == name) return static_cast<TokenFormat>(i);
  throw ConfigError(
      fmt::format("\"{}\" is no format of token files; known: bytes, llmc, megatron", name));
}

std::int64_t size_of(TokenType type) {
  static constexpr std::array<std::int64_t, 7> kSizes{1, 1, 2, 2, 4, 4, 8};
  return kSizes[static_cast<std::size_t>(type)];
}

TokenFile::TokenFile(const std::filesystem::path& path, std::int64_t vocab,
                     std::optional<TokenFormat> format)
    : format_(format ? *format : find_format(path)), vocab_(vocab) {
  switch (format_) {
    case TokenFormat::bytes:
      data_ = MappedFile(path);
      tokens_ = data_.size();
      break;
    case TokenFormat::llmc:
      data_ = MappedFile(path);
      open_llmc();
      break;
    case TokenFormat::megatron:
      const MegatronPaths paths = megatron_paths(path);
      data_ = MappedFile(paths.data);
      open_megatron(paths.index);
      break;
  }
}

void TokenFile::open_llmc() {
  const std::string name = path().string();
  if (data_.size() < kLlmcHeaderBytes)
    throw ConfigError(fmt::format(
        "{}: offset 0: the header of an llm.c token file has {} bytes, this file has {}", name,
        kLlmcHeaderBytes, data_.size()));
  const auto header = load_as<LlmcHeader>(data_.bytes().data());
  if (!has_llmc_magic(data_))
    throw ConfigError(
        fmt::format("{}: offset 0: expected the magic {} (or {}) of an llm.c token file, found {}",
                    name, kLlmcUint16.magic, kLlmcUint32.magic, header.magic));
  const bool narrow = header.magic == kLlmcUint16.magic;
  const std::int32_t version = narrow ? kLlmcUint16.version : kLlmcUint32.version;
  if (header.version != version)
    throw ConfigError(
        fmt::format("{}: offset 4: expected version {}, found {}", name, version, header.version));
  type_ = narrow ? TokenType::uint16 : TokenType::uint32;
  data_offset_ = kLlmcHeaderBytes;
  tokens_ = header.tokens;
  const std::int64_t expected = kLlmcHeaderBytes + tokens_ * size_of(type_);
  if (tokens_ < 0 || data_.size() != expected)
    throw ConfigError(
        fmt::format("{}: offset 8: the header says {} tokens, so {} bytes, but the file has {}",
                    name, tokens_, expected, data_.size()));
}

void TokenFile::open_megatron(const std::filesystem::path& index_path) {
  MegatronIndex index = read_megatron_index(index_path);
  type_ = index.type;
  tokens_ = index.tokens;
  documents_ = std::move(index.documents);
  const std::int64_t expected = tokens_ * size_of(type_);
  if (data_.size() != expected)
    throw ConfigError(fmt::format("{}: {} says {} tokens, so {} bytes, but the file has {}",
                                  path().string(), index_path.string(), tokens_, expected,
                                  data_.size()));
}

template <class T>
void TokenFile::read_as(std::int64_t first, std::span<std::int32_t> out) const {
  const std::byte* at = data_.bytes().data() + data_offset_ + first * sizeof(T);
  const std::int64_t limit = vocab_ > 0 ? vocab_ : std::numeric_limits<std::int32_t>::max();
  for (std::size_t i = 0; i < out.size(); ++i, at += sizeof(T)) {
    const auto token = static_cast<std::int64_t>(load_as<T>(at));
    if (token < 0 || token >= limit)
      throw ConfigError(fmt::format("{}: offset {}: token {} is {}, outside the vocabulary of {}",
                                    path().string(), at - data_.bytes().data(),
                                    first + static_cast<std::int64_t>(i), token, limit));
    out[i] = static_cast<std::int32_t>(token);
  }
}

void TokenFile::read(std::int64_t first, std::span<std::int32_t> out) const {
  check(first >= 0 && first + static_cast<std::int64_t>(out.size()) <= tokens_,
        "tokens {} to {} of {}", first, first + out.size(), tokens_);
  switch (type_) {
    case TokenType::uint8:
      return read_as<std::uint8_t>(first, out);
    case TokenType::int8:
      return read_as<std::int8_t>(first, out);
    case TokenType::int16:
      return read_as<std::int16_t>(first, out);
    case TokenType::uint16:
      return read_as<std::uint16_t>(first, out);
    case TokenType::int32:
      return read_as<std::int32_t>(first, out);
    case TokenType::uint32:
      return read_as<std::uint32_t>(first, out);
    case TokenType::int64:
      return read_as<std::int64_t>(first, out);
  }
}

MegatronPaths megatron_paths(const std::filesystem::path& path) {
  std::filesystem::path stem = path;
  if (stem.extension() == ".idx" || stem.extension() == ".bin") stem.replace_extension();
  return {stem.string() + ".bin", stem.string() + ".idx"};
}

}  // namespace trainyard
