#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "backends/common/mapped_file.h"

namespace trainyard {

// bytes: any file, a token a byte. llmc: the .bin of llm.c, uint16 tokens, or uint32 for large
// vocabularies. megatron: the .bin and .idx of Megatron-LM's indexed data set.
enum class TokenFormat : std::uint8_t { bytes, llmc, megatron };
std::string_view token_format_name(TokenFormat format);
// Throws ConfigError that lists the names.
TokenFormat token_format_of(std::string_view name);

// How a token is stored.
enum class TokenType : std::uint8_t { uint8, int8, int16, uint16, int32, uint32, int64 };
std::int64_t size_of(TokenType type);

// The first words of llm.c's files: 256 int32, of which three are used.
struct LlmcHeader {
  std::int32_t magic, version, tokens;
};
inline constexpr std::int64_t kLlmcHeaderBytes = 256 * 4;
inline constexpr LlmcHeader kLlmcUint16{20240520, 1, 0};
inline constexpr LlmcHeader kLlmcUint32{20240801, 7, 0};  // its Llama 3 variant

// The start of Megatron-LM's index, followed by a type code, the numbers of sequences and of
// document bounds, and the three tables.
inline constexpr std::string_view kMegatronMagic{"MMIDIDX\0\0", 9};
inline constexpr std::uint64_t kMegatronVersion = 1;
struct MegatronType {
  std::uint8_t code;
  TokenType type;
};
inline constexpr MegatronType kMegatronTypes[] = {{1, TokenType::uint8}, {2, TokenType::int8},
                                                  {3, TokenType::int16}, {4, TokenType::int32},
                                                  {5, TokenType::int64}, {8, TokenType::uint16}};

// Tokens in a file, read in place. Everything wrong with a file is a ConfigError that names it, the
// offset, what was expected and what is there.
class TokenFile {
 public:
  // Megatron data may be named by its .idx, its .bin or what the two have in common. Without
  // `format` it is found out: an index beside the file, llm.c's magic, or plain bytes. `vocab`:
  // tokens from there on are refused when read; 0: only negative ones.
  TokenFile(const std::filesystem::path& path, std::int64_t vocab,
            std::optional<TokenFormat> format = std::nullopt);

  TokenFormat format() const { return format_; }
  const std::filesystem::path& path() const { return data_.path(); }
  std::int64_t tokens() const { return tokens_; }
  // Copies tokens first … first + out.size() - 1.
  void read(std::int64_t first, std::span<std::int32_t> out) const;
  // The first token of each document, ascending, starting with 0; {0} where the format keeps no
  // documents.
  const std::vector<std::int64_t>& documents() const { return documents_; }

 private:
  void open_llmc();
  void open_megatron(const std::filesystem::path& index_path);
  template <class T>
  void read_as(std::int64_t first, std::span<std::int32_t> out) const;

  MappedFile data_;
  TokenFormat format_ = TokenFormat::bytes;
  TokenType type_ = TokenType::uint8;
  std::int64_t vocab_ = 0, data_offset_ = 0, tokens_ = 0;
  std::vector<std::int64_t> documents_{0};
};

// The .bin and .idx that `path` stands for: itself with the suffix exchanged or added.
struct MegatronPaths {
  std::filesystem::path data, index;
};
MegatronPaths megatron_paths(const std::filesystem::path& path);

}  // namespace trainyard
