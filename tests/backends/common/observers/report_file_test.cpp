#include "backends/common/observers/report_file.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/backends/common/observers/runs.h"
#include "tests/temporary_folder.h"

namespace trainyard {
namespace {

using testing::AllOf;
using testing::HasSubstr;

std::string write_error(ReportFile& file) {
  try {
    file.write("a line\n");
  } catch (const std::runtime_error& error) {
    return error.what();
  }
  return "no error";
}

TEST(ReportFile, CanBeReadWhileItGrows) {
  const TemporaryFolder folder;
  const std::string path = folder.path() / "log";
  ReportFile file(path, ReportFile::Start::anew);
  file.write("one\n");
  EXPECT_EQ(read_file(path), "one\n");
  file.write("two\n");
  EXPECT_EQ(read_file(path), "one\ntwo\n");
}

TEST(ReportFile, GoesOnBehindWhatIsThereOrStartsAnew) {
  const TemporaryFolder folder;
  const std::string path = write_file(folder.path() / "log", "old\n");
  ReportFile(path, ReportFile::Start::append).write("new\n");
  EXPECT_EQ(read_file(path), "old\nnew\n");
  ReportFile(path, ReportFile::Start::anew).write("newer\n");
  EXPECT_EQ(read_file(path), "newer\n");
}

TEST(ReportFile, ThatCannotBeOpenedNamesPathAndReason) {
  EXPECT_THAT(config_error_of([] { ReportFile("/nowhere/log", ReportFile::Start::anew); }),
              AllOf(HasSubstr("/nowhere/log"), HasSubstr("No such file or directory")));
}

// /dev/full refuses every write as a full disk does (full(4)).
TEST(ReportFile, OnAFullDiskNamesPathAndReason) {
  ReportFile file("/dev/full", ReportFile::Start::append);
  EXPECT_EQ(write_error(file), "/dev/full: writing failed: No space left on device");
}

TEST(ReportFile, WhosePipeNobodyReadsFailsWithoutEndingTheProcess) {
  const TemporaryFolder folder;
  const std::string path = folder.path() / "pipe";
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  const int reader = open(path.c_str(), O_RDONLY | O_NONBLOCK);
  ReportFile file(path, ReportFile::Start::append);
  EXPECT_EQ(write_error(file), "no error");
  close(reader);
  EXPECT_EQ(write_error(file), path + ": writing failed: Broken pipe");
  EXPECT_EQ(write_error(file), path + ": writing failed: Broken pipe");
}

}  // namespace
}  // namespace trainyard
