#pragma once
#include <memory>
#include <span>

#include "backends/common/token_file.h"

namespace trainyard {

// Writes a token file from its documents, in order. Nothing bears the final name before finish().
class TokenWriter {
 public:
  virtual ~TokenWriter() = default;
  // Adds tokens to the document. Throws ConfigError for a token that the format cannot store, and
  // std::runtime_error when the disk refuses.
  virtual void append(std::span<const std::int32_t> tokens) = 0;
  virtual void end_document() = 0;
  virtual void finish() = 0;
};

// `vocab` decides how wide tokens are stored: two bytes up to 65536, else four.
std::unique_ptr<TokenWriter> make_token_writer(TokenFormat format,
                                               const std::filesystem::path& path,
                                               std::int64_t vocab);

}  // namespace trainyard
