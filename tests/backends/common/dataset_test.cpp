#include "backends/common/dataset.h"

#include <gmock/gmock.h>

#include "backends/common/token_writer.h"
#include "core/data/tokens.h"
#include "tests/temporary_folder.h"

namespace trainyard {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::vector<std::int32_t> row_of(const Dataset& data, Split split, std::int64_t sample) {
  std::vector<std::int32_t> row(static_cast<std::size_t>(data.sequence() + 1));
  data.read(split, sample, row);
  return row;
}

TEST(Dataset, EveryTokenButTheFirstIsATargetOnce) {
  TemporaryFolder folder;
  const Dataset data({.files = {write_file(folder / "t", "abcdefgh")}, .sequence = 3});
  ASSERT_EQ(data.samples(Split::training), 3);
  EXPECT_THAT(row_of(data, Split::training, 0), ElementsAre('a', 'b', 'c', 'd'));
  EXPECT_THAT(row_of(data, Split::training, 1), ElementsAre('d', 'e', 'f', 'g'));
  EXPECT_THAT(row_of(data, Split::training, 2),
              ElementsAre('g', 'h', kPaddingToken, kPaddingToken));
}

TEST(Dataset, FilesFollowOneAnotherWithoutSharingASample) {
  TemporaryFolder folder;
  const Dataset data(
      {.files = {write_file(folder / "1", "abc"), write_file(folder / "2", "xyz")}, .sequence = 2});
  ASSERT_EQ(data.samples(Split::training), 2);
  EXPECT_THAT(row_of(data, Split::training, 1), ElementsAre('x', 'y', 'z'));
}

TEST(Dataset, ValidationIsTheTailAndIsFilledUpWithPadding) {
  TemporaryFolder folder;
  const Dataset data(
      {.files = {write_file(folder / "t", "abcdefghi")}, .sequence = 2, .validation = 0.3});
  EXPECT_EQ(data.samples(Split::training), 2);
  ASSERT_EQ(data.samples(Split::validation), 2);  // 4 samples, 1.2 of them rounded up
  EXPECT_THAT(row_of(data, Split::validation, 0), ElementsAre('e', 'f', 'g'));
  EXPECT_THAT(row_of(data, Split::validation, 2),
              ElementsAre(kPaddingToken, kPaddingToken, kPaddingToken));
}

TEST(Dataset, SeparatedDocumentsDoNotPredictEachOthersStart) {
  TemporaryFolder folder;
  const auto writer = make_token_writer(TokenFormat::megatron, folder / "m", 10);
  for (const std::vector<std::int32_t>& document :
       {std::vector<std::int32_t>{1, 2}, {3, 4, 5}, {6, 7}}) {
    writer->append(document);
    writer->end_document();
  }
  writer->finish();
  const Dataset data(
      {.files = {folder / "m"}, .vocab = 10, .sequence = 3, .separate_documents = true});
  ASSERT_EQ(data.samples(Split::training), 2);
  EXPECT_THAT(row_of(data, Split::training, 0), ElementsAre(1, 2, not_a_target(3), 4));
  EXPECT_THAT(row_of(data, Split::training, 1), ElementsAre(4, 5, not_a_target(6), 7));
}

TEST(Dataset, TooLittleDataIsRefused) {
  TemporaryFolder folder;
  const auto one = write_file(folder / "one", "a");
  EXPECT_THAT(config_error_of([&] { Dataset({.files = {one}}); }), HasSubstr("has 1 tokens"));
  EXPECT_THAT(config_error_of([] { Dataset({}); }), HasSubstr("no token file"));
  const auto two = write_file(folder / "two", "abc");
  EXPECT_THAT(config_error_of([&] { Dataset({.files = {two}, .sequence = 8, .validation = 0.1}); }),
              HasSubstr("leave none to train on"));
}

}  // namespace
}  // namespace trainyard
