#include "backends/common/observers/tensorboard_file.h"

#include <gmock/gmock.h>

#include <cstdio>
#include <filesystem>

#include "tests/backends/common/observers/runs.h"
#include "tests/temporary_folder.h"

namespace trainyard {
namespace {

using testing::HasSubstr;

// What a reader that shares nothing with the writer makes of the file; both streams.
std::string read_events(const std::string& path) {
  const std::string command = "python3 '" TRAINYARD_TEST_DATA
                              "/backends/common/observers/read_events.py' '" +
                              path + "' 2>&1";
  FILE* pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return "no python3";
  std::string text;
  for (int c = std::fgetc(pipe); c != EOF; c = std::fgetc(pipe)) text += static_cast<char>(c);
  pclose(pipe);
  return text;
}

TEST(TensorboardFile, IsReadByAnIndependentReader) {
  const TemporaryFolder folder;
  TensorboardFile file(folder.path() / "board");
  file.begin(small_run());
  file.step(small_step(1, 4.5));
  StepRecord second = small_step(300, 2.25);  // more than a byte of varint
  second.grad_norm = std::numeric_limits<double>::quiet_NaN();
  file.step(second);
  file.evaluation({.step = 300, .loss = 3.5, .sequences = 1, .time = {}});
  EXPECT_EQ(read_events(file.path()),
            "0 version brain.Event:2\n"
            "1 loss=4.5 learning_rate=0.001 tokens_per_s=200 grad_norm=9\n"
            "300 loss=2.25 learning_rate=0.001 tokens_per_s=200\n"
            "300 validation_loss=3.5\n");
}

// Status 1 is SessionLog.START: TensorBoard drops what older files have from that step on.
TEST(TensorboardFile, OfAResumedRunSaysWhichStepsItRepeats) {
  const TemporaryFolder folder;
  RunFacts facts = small_run();
  facts.steps_done = 1000;
  TensorboardFile file(folder.path());
  file.begin(facts);
  EXPECT_EQ(read_events(file.path()), "0 version brain.Event:2\n1001 session 1\n");
}

TEST(TensorboardFile, HasANameThatTensorboardLooksForAndNoTwoShare) {
  const TemporaryFolder folder;
  const TensorboardFile first(folder.path()), second(folder.path());
  EXPECT_THAT(std::filesystem::path(first.path()).filename().string(),
              testing::StartsWith("events.out.tfevents."));
  EXPECT_LT(first.path(), second.path());
}

TEST(TensorboardFile, ReaderNoticesADamagedByte) {
  const TemporaryFolder folder;
  TensorboardFile file(folder.path());
  file.begin(small_run());
  std::string bytes = read_file(file.path());
  bytes[20] ^= 1;
  EXPECT_THAT(read_events(write_file(folder.path() / "damaged", bytes)),
              HasSubstr("wrong check sum"));
}

TEST(TensorboardFile, ThatCannotBeWrittenIsFoundBeforeTheRun) {
  EXPECT_THAT(config_error_of([] { TensorboardFile("/proc/nowhere"); }),
              HasSubstr("/proc/nowhere"));
}

// RFC 3720, appendix B.4.
TEST(Crc32c, HasThePublishedValues) {
  EXPECT_EQ(crc32c("123456789"), 0xE3069283U);
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8A9136AAU);
  EXPECT_EQ(crc32c(std::string(32, '\xFF')), 0x62A8AB43U);
}

}  // namespace
}  // namespace trainyard
