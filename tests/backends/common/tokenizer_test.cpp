#include "backends/common/tokenizer.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "backends/common/gpt2_words.h"
#include "tests/temporary_folder.h"

namespace trainyard {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

std::vector<std::string> words(std::string_view text) {
  std::vector<std::string> result;
  while (!text.empty()) {
    result.emplace_back(text.substr(0, gpt2_word(text)));
    text.remove_prefix(result.back().size());
  }
  return result;
}

std::vector<std::int32_t> ids(const Tokenizer& tokenizer, std::string_view text) {
  std::vector<std::int32_t> result;
  tokenizer.encode(text, [&](std::span<const std::int32_t> piece) {
    result.insert(result.end(), piece.begin(), piece.end());
  });
  return result;
}

// Expected pieces follow from the pattern by hand; they are what Python's `regex` module gives.
TEST(Gpt2Words, LettersNumbersAndSymbolsTakeOneBlankBeforeThem) {
  EXPECT_THAT(words("Hello, world 42!"), ElementsAre("Hello", ",", " world", " 42", "!"));
  EXPECT_THAT(words("a1b"), ElementsAre("a", "1", "b"));
  EXPECT_THAT(words("x ==y"), ElementsAre("x", " ==", "y"));
}

TEST(Gpt2Words, ContractionsAreOfSmallLetters) {
  EXPECT_THAT(words("I'm we'll they've"), ElementsAre("I", "'m", " we", "'ll", " they", "'ve"));
  EXPECT_THAT(words("I'M"), ElementsAre("I", "'", "M"));
  EXPECT_THAT(words("'tis"), ElementsAre("'t", "is"));
  EXPECT_THAT(words(" 's"), ElementsAre(" '", "s"));
}

TEST(Gpt2Words, ARunOfSpacesGivesItsLastToTheWordBehindIt) {
  EXPECT_THAT(words("a  b"), ElementsAre("a", " ", " b"));
  EXPECT_THAT(words("a   b"), ElementsAre("a", "  ", " b"));
  EXPECT_THAT(words("a\n\nb"), ElementsAre("a", "\n", "\n", "b"));
  EXPECT_THAT(words("a\nb"), ElementsAre("a", "\n", "b"));
  EXPECT_THAT(words("a \n b"), ElementsAre("a", " \n", " b"));
  EXPECT_THAT(words("a  "), ElementsAre("a", "  "));
  EXPECT_THAT(words("\t"), ElementsAre("\t"));
}

TEST(Gpt2Words, LettersOfEveryScriptAreLetters) {
  EXPECT_THAT(words("Größe Привет 日本語"), ElementsAre("Größe", " Привет", " 日本語"));
  EXPECT_THAT(words("x²½Ⅷ٣"), ElementsAre("x", "²½Ⅷ٣"));            // No, Nl, Nd
  EXPECT_THAT(words("e\u0301a"), ElementsAre("e", "\u0301", "a"));  // a mark is no letter
  EXPECT_THAT(words("a\u00a0b"), ElementsAre("a", "\u00a0", "b"));  // no-break space is space
  EXPECT_THAT(words("a\u3000\u3000b"), ElementsAre("a", "\u3000", "\u3000", "b"));
  EXPECT_THAT(words("ok 👍👍"), ElementsAre("ok", " 👍👍"));
}

TEST(Gpt2Words, BytesThatAreNotUtf8AreSymbols) {
  EXPECT_THAT(words("a\xff\xfe!b"), ElementsAre("a", "\xff\xfe!", "b"));
  EXPECT_THAT(words("a\xe2\x82"), ElementsAre("a", "\xe2\x82"));
}

// A vocabulary in GPT-2's order: 256 bytes, then one entry a merge, then the end of text.
class SmallVocabulary {
 public:
  explicit SmallVocabulary(std::vector<std::string> merges) {
    nlohmann::ordered_json vocab;
    int next = 0;
    for (const auto& [first, last] : {std::pair{0x21, 0x7e}, {0xa1, 0xac}, {0xae, 0xff}})
      for (int c = first; c <= last; ++c) vocab[utf8(c)] = next++;
    for (int i = 0; next < 256; ++i) vocab[utf8(0x100 + i)] = next++;
    std::string lines = "#version: 0.2\n";
    for (const std::string& merge : merges) {
      lines += merge + "\n";
      std::string entry = merge;
      entry.erase(entry.find(' '), 1);
      vocab[entry] = next++;
    }
    vocab["<|endoftext|>"] = next;
    write_file(folder_ / "vocab.json", vocab.dump());
    write_file(folder_ / "merges.txt", lines);
  }
  std::unique_ptr<Tokenizer> tokenizer() const {
    return make_gpt2_tokenizer(folder_ / "vocab.json", folder_ / "merges.txt");
  }
  const TemporaryFolder& folder() const { return folder_; }

 private:
  static std::string utf8(int c) {
    if (c < 0x80) return {static_cast<char>(c)};
    return {static_cast<char>(0xc0 | c >> 6), static_cast<char>(0x80 | (c & 0x3f))};
  }
  TemporaryFolder folder_;
};

// In GPT-2's alphabet "!" is 0, so "a" is 64; the blank is written U+0120 and is byte 220.
TEST(Gpt2Tokenizer, MergesTheLowestRankFirstWhereverItStands) {
  const SmallVocabulary vocabulary({"b c", "a b", "a bc", "Ġ a"});
  const auto tokenizer = vocabulary.tokenizer();
  EXPECT_EQ(tokenizer->vocab(), 261);
  EXPECT_THAT(ids(*tokenizer, "abc"), ElementsAre(258));  // bc, then abc; never ab
  EXPECT_THAT(ids(*tokenizer, "ab"), ElementsAre(257));
  EXPECT_THAT(ids(*tokenizer, "abab"), ElementsAre(257, 257));
  EXPECT_THAT(ids(*tokenizer, "aab"), ElementsAre(64, 257));
  EXPECT_THAT(ids(*tokenizer, " a"), ElementsAre(259));
  EXPECT_THAT(ids(*tokenizer, "a a"), ElementsAre(64, 259));
  EXPECT_THAT(ids(*tokenizer, "a  a"), ElementsAre(64, 220, 259));
  EXPECT_EQ(tokenizer->document_token(), 260);
}

TEST(Gpt2Tokenizer, EqualNeighboursAreMergedFromTheLeft) {
  const SmallVocabulary vocabulary({"a a", "aa aa"});
  EXPECT_THAT(ids(*vocabulary.tokenizer(), "aaaaaaa"), ElementsAre(257, 256, 64));
}

TEST(Gpt2Tokenizer, DecodingGivesBackEveryByte) {
  const SmallVocabulary vocabulary({"h e", "Ġ t"});
  const auto tokenizer = vocabulary.tokenizer();
  std::string text = "the theatre\r\n\t Größe 日本 ";
  for (int byte = 0; byte < 256; ++byte) text += static_cast<char>(byte);
  EXPECT_EQ(tokenizer->decode(ids(*tokenizer, text)), text);
  EXPECT_THAT(config_error_of([&] { tokenizer->decode(std::vector<std::int32_t>{999}); }),
              HasSubstr("999"));
}

TEST(Gpt2Tokenizer, BrokenFilesAreNamed) {
  const SmallVocabulary vocabulary({"a b"});
  const auto& folder = vocabulary.folder();
  write_file(folder / "merges.txt", "#version: 0.2\na b\na\n");
  EXPECT_THAT(config_error_of([&] { vocabulary.tokenizer(); }), HasSubstr("merges.txt:3"));
  write_file(folder / "merges.txt", "a c\n");
  EXPECT_THAT(config_error_of([&] { vocabulary.tokenizer(); }),
              AllOf(HasSubstr("merges.txt:1"), HasSubstr("\"ac\" is not in the vocabulary")));
  write_file(folder / "vocab.json", "{\"a\": 0}");
  EXPECT_THAT(config_error_of([&] { vocabulary.tokenizer(); }),
              AllOf(HasSubstr("vocab.json"), HasSubstr("for byte 0")));
  write_file(folder / "vocab.json", "{\"a\": 0, \"b\": 0}");
  EXPECT_THAT(config_error_of([&] { vocabulary.tokenizer(); }), HasSubstr("0 to 1 once"));
  write_file(folder / "vocab.json", "[1");
  EXPECT_THAT(config_error_of([&] { vocabulary.tokenizer(); }), HasSubstr("JSON object"));
  EXPECT_THAT(config_error_of([&] { make_gpt2_tokenizer(folder / "none", folder / "none"); }),
              HasSubstr("cannot be opened"));
}

TEST(ByteTokenizer, ATokenIsAByte) {
  const auto tokenizer = make_byte_tokenizer();
  EXPECT_EQ(tokenizer->vocab(), 256);
  EXPECT_THAT(ids(*tokenizer, "a\xff"), ElementsAre(97, 255));
  EXPECT_EQ(tokenizer->decode(ids(*tokenizer, "a\xff")), "a\xff");
  EXPECT_FALSE(tokenizer->document_token().has_value());
}

}  // namespace
}  // namespace trainyard
