#include "backends/common/token_file.h"

#include <gmock/gmock.h>

#include "backends/common/token_writer.h"
#include "tests/temporary_folder.h"

namespace trainyard {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using Tokens = std::vector<std::int32_t>;

Tokens all_tokens(const TokenFile& file) {
  Tokens tokens(static_cast<std::size_t>(file.tokens()));
  file.read(0, tokens);
  return tokens;
}

void write_tokens(TokenFormat format, const std::filesystem::path& path, std::int64_t vocab,
                  const std::vector<Tokens>& documents) {
  const auto writer = make_token_writer(format, path, vocab);
  for (const Tokens& document : documents) {
    writer->append(document);
    writer->end_document();
  }
  writer->finish();
}

// 256 int32 of which the first three say what the file is (llm.c, dev/data/data_common.py).
std::string llmc(std::int32_t magic, std::int32_t version, std::int32_t count,
                 const std::string& tokens) {
  return bytes_of(magic) + bytes_of(version) + bytes_of(count) + std::string(253 * 4, '\0') +
         tokens;
}

struct Index {
  std::string magic{"MMIDIDX\0\0", 9};
  std::uint64_t version = 1;
  std::uint8_t type = 8;  // uint16
  std::vector<std::int32_t> lengths{3, 2};
  std::vector<std::int64_t> pointers{0, 6};
  std::vector<std::int64_t> bounds{0, 1, 2};

  // Megatron-LM, megatron/core/datasets/indexed_dataset.py.
  std::string bytes() const {
    std::string b = magic + bytes_of(version) + bytes_of(type) +
                    bytes_of<std::uint64_t>(lengths.size()) +
                    bytes_of<std::uint64_t>(bounds.size());
    for (const auto v : lengths) b += bytes_of(v);
    for (const auto v : pointers) b += bytes_of(v);
    for (const auto v : bounds) b += bytes_of(v);
    return b;
  }
};

std::string uint16s(std::initializer_list<std::uint16_t> values) {
  std::string bytes;
  for (const std::uint16_t value : values) bytes += bytes_of(value);
  return bytes;
}

class MegatronFiles {
 public:
  explicit MegatronFiles(const Index& index, const std::string& data = uint16s({1, 2, 3, 4, 5})) {
    write_file(folder_ / "corpus.bin", data);
    write_file(folder_ / "corpus.idx", index.bytes());
  }
  TokenFile open(const std::string& name = "corpus") const { return {folder_ / name, 100}; }

 private:
  TemporaryFolder folder_;
};

TEST(TokenFile, AnyFileIsATextOfBytes) {
  TemporaryFolder folder;
  const TokenFile file(write_file(folder / "text", "a\xff\n"), 256);
  EXPECT_EQ(file.format(), TokenFormat::bytes);
  EXPECT_THAT(all_tokens(file), ElementsAre(97, 255, 10));
  EXPECT_THAT(file.documents(), ElementsAre(0));
}

TEST(TokenFile, ReadsLlmcFiles) {
  TemporaryFolder folder;
  const TokenFile narrow(
      write_file(folder / "a.bin", llmc(20240520, 1, 2, uint16s({50256, 65535}))), 65536);
  EXPECT_THAT(all_tokens(narrow), ElementsAre(50256, 65535));
  const TokenFile wide(write_file(folder / "b.bin", llmc(20240801, 7, 1, bytes_of(128000))),
                       128256);
  EXPECT_THAT(all_tokens(wide), ElementsAre(128000));
}

TEST(TokenFile, ReadsMegatronFilesByAnyOfTheirNames) {
  const MegatronFiles files{Index{}};
  for (const char* name : {"corpus", "corpus.bin", "corpus.idx"}) {
    const TokenFile file = files.open(name);
    EXPECT_EQ(file.format(), TokenFormat::megatron);
    EXPECT_THAT(all_tokens(file), ElementsAre(1, 2, 3, 4, 5));
    EXPECT_THAT(file.documents(), ElementsAre(0, 3));
  }
}

TEST(TokenFile, MegatronDocumentsMayHaveSeveralSequencesOrNone) {
  Index index;
  index.lengths = {3, 1, 1};
  index.pointers = {0, 6, 8};
  index.bounds = {0, 2, 2, 3};
  EXPECT_THAT(MegatronFiles(index).open().documents(), ElementsAre(0, 4));
}

TEST(TokenFile, WritersWriteWhatReadersRead) {
  TemporaryFolder folder;
  const std::vector<Tokens> documents{{1, 2, 3}, {4}, {200, 255}};
  for (const auto format : {TokenFormat::bytes, TokenFormat::llmc, TokenFormat::megatron}) {
    const auto path = folder / (std::string(token_format_name(format)) + ".bin");
    for (const std::int64_t vocab : {256, 100000}) {
      write_tokens(format, path, vocab, documents);
      const TokenFile file(path, 256, format);
      EXPECT_THAT(all_tokens(file), ElementsAre(1, 2, 3, 4, 200, 255));
      if (format == TokenFormat::megatron) {
        EXPECT_THAT(file.documents(), ElementsAre(0, 3, 4));
      }
    }
  }
}

TEST(TokenFile, WritersStoreWideTokensInFourBytes) {
  TemporaryFolder folder;
  for (const auto format : {TokenFormat::llmc, TokenFormat::megatron}) {
    write_tokens(format, folder / "wide.bin", 128256, {{128000}});
    EXPECT_THAT(all_tokens(TokenFile(folder / "wide.bin", 128256, format)), ElementsAre(128000));
  }
}

TEST(TokenFile, AWrittenLlmcFileIsByteForByteTheFormat) {
  TemporaryFolder folder;
  write_tokens(TokenFormat::llmc, folder / "x.bin", 50257, {{7, 50256}});
  EXPECT_EQ(read_file(folder / "x.bin"), llmc(20240520, 1, 2, uint16s({7, 50256})));
}

TEST(TokenFile, AWrittenMegatronIndexIsByteForByteTheFormat) {
  TemporaryFolder folder;
  write_tokens(TokenFormat::megatron, folder / "x", 100, {{1, 2, 3}, {4, 5}});
  EXPECT_EQ(read_file(folder / "x.idx"), Index{}.bytes());
  EXPECT_EQ(read_file(folder / "x.bin"), uint16s({1, 2, 3, 4, 5}));
}

TEST(TokenFile, NothingBearsTheNameBeforeTheEnd) {
  TemporaryFolder folder;
  {
    const auto writer = make_token_writer(TokenFormat::llmc, folder / "x.bin", 256);
    writer->append(Tokens{1, 2});
    EXPECT_FALSE(std::filesystem::exists(folder / "x.bin"));
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(TokenFile, WritersRefuseTokensThatDoNotFit) {
  TemporaryFolder folder;
  const auto writer = make_token_writer(TokenFormat::bytes, folder / "x", 256);
  EXPECT_THAT(config_error_of([&] { writer->append(Tokens{256}); }), HasSubstr("256"));
  EXPECT_THAT(config_error_of([&] { writer->append(Tokens{-1}); }), HasSubstr("-1"));
}

TEST(TokenFile, ReadingNamesTheTokenOutsideTheVocabulary) {
  TemporaryFolder folder;
  const TokenFile file(write_file(folder / "a.bin", llmc(20240520, 1, 3, uint16s({1, 9, 10}))), 10);
  Tokens two(2);
  file.read(0, two);
  EXPECT_THAT(two, ElementsAre(1, 9));
  EXPECT_THAT(config_error_of([&] { file.read(1, two); }),
              AllOf(HasSubstr("a.bin: offset 1028: token 2 is 10"), HasSubstr("vocabulary of 10")));
}

TEST(TokenFile, ReadingRefusesNegativeTokens) {
  Index index;
  index.type = 3;  // int16
  const MegatronFiles files(index, uint16s({1, 2, 3, 4, 0xffff}));
  const TokenFile file = files.open();
  EXPECT_THAT(config_error_of([&] { all_tokens(file); }),
              HasSubstr("corpus.bin: offset 8: token 4 is -1"));
}

TEST(TokenFile, BrokenLlmcFilesAreNamedWithOffsetExpectedAndActual) {
  TemporaryFolder folder;
  const auto error = [&](const std::string& content) {
    const auto path = write_file(folder / "a.bin", content);
    return config_error_of([&] { TokenFile(path, 0); });
  };
  EXPECT_THAT(error(""),
              AllOf(HasSubstr("a.bin: offset 0"), HasSubstr("1024 bytes"), HasSubstr("has 0")));
  EXPECT_THAT(error(std::string(1023, 'x')), HasSubstr("has 1023"));
  EXPECT_THAT(error(llmc(20240519, 1, 0, "")),
              AllOf(HasSubstr("offset 0"), HasSubstr("20240520"), HasSubstr("found 20240519")));
  EXPECT_THAT(error(llmc(20240520, 2, 0, "")),
              AllOf(HasSubstr("offset 4"), HasSubstr("expected version 1, found 2")));
  EXPECT_THAT(
      error(llmc(20240520, 1, 3, uint16s({1, 2}))),
      AllOf(HasSubstr("offset 8"), HasSubstr("3 tokens, so 1030 bytes"), HasSubstr("has 1028")));
  EXPECT_THAT(error(llmc(20240520, 1, 1, uint16s({1, 2}))), HasSubstr("has 1028"));
  EXPECT_THAT(error(llmc(20240520, 1, -1, "")), HasSubstr("-1 tokens"));
}

TEST(TokenFile, BrokenMegatronIndicesAreNamedWithOffsetExpectedAndActual) {
  const auto error = [](const Index& index) {
    return config_error_of([&] { MegatronFiles(index).open(); });
  };
  Index index;
  index.magic[0] = 'X';
  EXPECT_THAT(error(index), AllOf(HasSubstr("corpus.idx: offset 0"), HasSubstr("MMIDIDX")));
  index = {};
  index.version = 2;
  EXPECT_THAT(error(index), HasSubstr("offset 9: expected version 1, found 2"));
  index = {};
  index.type = 6;
  EXPECT_THAT(error(index), AllOf(HasSubstr("offset 17"), HasSubstr("found 6")));
  index = {};
  index.lengths = {3, 3};
  EXPECT_THAT(error(index), AllOf(HasSubstr("corpus.bin"), HasSubstr("6 tokens, so 12 bytes"),
                                  HasSubstr("has 10")));
  index = {};
  index.lengths = {3, -2};
  EXPECT_THAT(error(index), HasSubstr("offset 38: sequence 1 has length -2"));
  index = {};
  index.pointers = {0, 8};
  EXPECT_THAT(error(index),
              HasSubstr("offset 50: expected sequence 1 at byte 6 of the data, found 8"));
  index = {};
  index.bounds = {0, 3, 2};
  EXPECT_THAT(error(index), HasSubstr("offset 66: document bound 1 is 3, expected 0 to 2"));
}

TEST(TokenFile, ATruncatedMegatronIndexIsRefusedAtEveryLength) {
  TemporaryFolder folder;
  write_file(folder / "c.bin", uint16s({1, 2, 3, 4, 5}));
  const std::string whole = Index{}.bytes();
  for (std::size_t length = 0; length < whole.size(); ++length) {
    write_file(folder / "c.idx", whole.substr(0, length));
    EXPECT_THROW(TokenFile(folder / "c", 0), ConfigError) << length;
  }
}

TEST(TokenFile, HugeCountsInAMegatronIndexAreRefused) {
  TemporaryFolder folder;
  write_file(folder / "c.bin", "");
  std::string index = Index{}.bytes();
  const std::string huge = bytes_of(std::uint64_t{1} << 60);
  write_file(folder / "c.idx", index.replace(18, 8, huge));
  EXPECT_THAT(config_error_of([&] { TokenFile(folder / "c", 0); }), HasSubstr("do not fit"));
}

TEST(TokenFile, MissingFilesAndFoldersAreNamed) {
  TemporaryFolder folder;
  EXPECT_THAT(config_error_of([&] { TokenFile(folder / "none", 0); }),
              AllOf(HasSubstr("none"), HasSubstr("No such file")));
  EXPECT_THAT(config_error_of([&] { TokenFile(folder.path(), 0); }), HasSubstr("not a regular"));
}

TEST(TokenFile, FormatsHaveNames) {
  EXPECT_EQ(token_format_of("megatron"), TokenFormat::megatron);
  EXPECT_THAT(config_error_of([] { token_format_of("parquet"); }),
              AllOf(HasSubstr("parquet"), HasSubstr("bytes, llmc, megatron")));
}

}  // namespace
}  // namespace trainyard
