#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "backends/common/mapped_file.h"
#include "backends/common/token_writer.h"
#include "backends/common/tokenizer.h"
#include "core/error.h"
#include "core/report/text.h"
#include "tools/trainyard/command.h"
#include "tools/trainyard/output.h"
#include "tools/trainyard/progress.h"

namespace trainyard {
namespace {

struct DataOptions {
  std::vector<std::string> inputs;
  std::string tokenizer = "bytes", format = "llmc", vocab, merges, out;
};

std::unique_ptr<Tokenizer> make_tokenizer(const DataOptions& options) {
  if (options.tokenizer == "bytes") return make_byte_tokenizer();
  if (options.vocab.empty() || options.merges.empty())
    throw ConfigError("--tokenizer gpt2 needs --vocab vocab.json and --merges merges.txt");
  return make_gpt2_tokenizer(options.vocab, options.merges);
}

// llm.c puts the token between documents before each of them, Megatron-LM behind.
void write_documents(const DataOptions& options, const Tokenizer& tokenizer, TokenFormat format,
                     TokenWriter& writer) {
  const std::optional<std::int32_t> mark =
      format == TokenFormat::bytes ? std::nullopt : tokenizer.document_token();
  const auto put_mark = [&] {
    if (mark) writer.append({&*mark, 1});
  };
  std::int64_t tokens = 0, bytes = 0;
  Progress progress("documents", options.inputs.size());
  for (std::size_t i = 0; i < options.inputs.size(); ++i) {
    const MappedFile file(options.inputs[i]);
    const auto* text = reinterpret_cast<const char*>(file.bytes().data());
    if (format == TokenFormat::llmc) put_mark();
    tokenizer.encode({text, file.bytes().size()}, [&](std::span<const std::int32_t> ids) {
      writer.append(ids);
      tokens += static_cast<std::int64_t>(ids.size());
    });
    if (format == TokenFormat::megatron) put_mark();
    writer.end_document();
    bytes += file.size();
    progress.show(i + 1);
  }
  writer.finish();
  print_all(fmt::format("{}: {} tokens of {} bytes in {} documents, vocabulary {}\n", options.out,
                        grouped(tokens), grouped(bytes), options.inputs.size(),
                        grouped(tokenizer.vocab())));
}

int make_data(const DataOptions& options) {
  const TokenFormat format = token_format_of(options.format);
  const std::unique_ptr<Tokenizer> tokenizer = make_tokenizer(options);
  const auto writer = make_token_writer(format, options.out, tokenizer->vocab());
  write_documents(options, *tokenizer, format, *writer);
  return 0;
}

}  // namespace

void add_data(CLI::App& app, Action& action) {
  CLI::App* command = app.add_subcommand("data", "Make a token file from text");
  auto options = std::make_shared<DataOptions>();
  command->add_option("inputs", options->inputs, "Text files, a document each")->required();
  command->add_option("--out", options->out, "File to write; megatron: .bin and .idx of this name")
      ->required();
  command->add_option("--tokenizer", options->tokenizer, "bytes (default) or gpt2")
      ->check(CLI::IsMember({"bytes", "gpt2"}));
  command->add_option("--vocab", options->vocab, "gpt2: its vocab.json");
  command->add_option("--merges", options->merges, "gpt2: its merges.txt");
  command->add_option("--format", options->format, "llmc (default), megatron or bytes")
      ->check(CLI::IsMember({"llmc", "megatron", "bytes"}));
  command->callback([&action, options] { action = [options] { return make_data(*options); }; });
}

}  // namespace trainyard
