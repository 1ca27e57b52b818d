#include <gmock/gmock.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <csignal>

#include "backends/common/checkpoint_reader.h"
#include "core/random.h"
#include "tests/backends/common/saved_runs.h"
#include "tests/temporary_folder.h"

namespace trainyard {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;
namespace fs = std::filesystem;

// A job whose checkpoint takes a few milliseconds to write, so that kills hit every part of it.
Job larger_job() {
  Job job = tiny_job({.data = 2, .zero = 1});
  job.model.hidden = 64, job.model.heads = job.model.kv_heads = 4, job.model.head_dim = 16;
  job.model.ffn = 256, job.model.vocab = 1000;
  return job;
}

// Writes one checkpoint after the other, steps first, first + 1, …, until it is killed.
[[noreturn]] void write_for_ever(const fs::path& root, std::int32_t rank, std::int64_t first,
                                 const std::string& attempt) {
  const Job job = larger_job();
  CheckpointOptions options = options_of(root, rank, 2);
  options.attempt = attempt;
  options.keep = 3;
  CheckpointWriter writer(options);
  for (std::int64_t step = first;; ++step) {
    const SavedState state(job, job.mesh().coord(RankId(rank)), step);
    writer.start(manifest_of(job, step), state.pieces());
    if (!writer.wait().empty()) ::_exit(1);
  }
}

// Two ranks write while a third process kills both at a random instant, thirty times. Whatever is
// left under a checkpoint's name must be whole.
TEST(SlowCheckpoint, IsNeverTornByKills) {
  TemporaryFolder folder;
  const CheckpointStore store(folder.path());
  const Job job = larger_job();
  std::int64_t first = 1;
  // On a busy machine many a round ends before its first checkpoint; then there are more of them.
  for (int round = 0; round < 30 || (first <= 30 && round < 300); ++round) {
    const std::string attempt = fmt::format("attempt{}", round);
    store.prepare();
    pid_t children[2];
    for (std::int32_t rank : {0, 1}) {
      children[rank] = ::fork();
      if (children[rank] == 0) write_for_ever(folder.path(), rank, first, attempt);
    }
    const auto random = philox(random_key(1, "kill"), round);
    ::usleep(5000 + random[0] % 120000);
    for (const std::uint32_t i : {0u, 1u}) ::kill(children[(i + random[1]) % 2], SIGKILL);
    for (const pid_t child : children) ::waitpid(child, nullptr, 0);

    for (const fs::path& checkpoint : store.list()) EXPECT_EQ(checkpoint_problem(checkpoint), "");
    const NewestCheckpoint newest = newest_checkpoint(store);
    EXPECT_THAT(newest.rejected, IsEmpty());
    if (newest.path.empty()) continue;
    const CheckpointReader reader(newest.path);
    const std::int64_t step = reader.manifest().step;
    EXPECT_GE(step, first - 1);  // what was there before is not lost
    const LogicalTensor table{"embedding", job.model.vocab, job.model.hidden};
    std::vector<float> got(table.elements()), expected(table.elements());
    reader.read(whole(table), "", got);
    InitialWeights(job.model, job.batch.sequence_length, step).fill(whole(table), expected);
    ASSERT_EQ(got, expected);
    first = step + 1;
  }
  EXPECT_GT(first, 30);  // kills did not come before anything was written
}

// A file system of one megabyte; absent where the test may not mount.
class SmallDisk {
 public:
  explicit SmallDisk(const fs::path& where) : where_(where) {
    fs::create_directory(where_);
    mounted_ = ::mount("tmpfs", where_.c_str(), "tmpfs", 0, "size=1m") == 0;
  }
  ~SmallDisk() {
    if (mounted_) ::umount(where_.c_str());
  }
  bool mounted() const { return mounted_; }

 private:
  fs::path where_;
  bool mounted_;
};

TEST(Checkpoint, AFullDiskIsNamedAndLeavesTheLastCheckpoint) {
  TemporaryFolder folder;
  const SmallDisk disk(folder / "disk");
  if (!disk.mounted()) GTEST_SKIP() << "needs the right to mount";
  const Job job = tiny_job({}), large = larger_job();  // 1.9 MB with its moments
  ASSERT_EQ(save(job, folder / "disk/run", 1), "");
  EXPECT_THAT(save(large, folder / "disk/run", 2),
              AllOf(HasSubstr("step 2 was not written"), HasSubstr(".safetensors: "),
                    HasSubstr("No space left on device")));
  const NewestCheckpoint newest = newest_checkpoint(CheckpointStore(folder / "disk/run"));
  EXPECT_EQ(newest.path, folder / "disk/run/step-00000001");
  EXPECT_THAT(newest.rejected, IsEmpty());
  EXPECT_EQ(save(job, folder / "disk/run", 3), "");  // what was half written is gone
}

TEST(Checkpoint, ValuesThatAreNoNumbersMakeNone) {
  TemporaryFolder folder;
  const Job job = tiny_job({});
  ASSERT_EQ(save(job, folder.path(), 1), "");
  const SavedState state(job, {}, 2);
  for (const float value : {std::nanf(""), -std::nanf(""), HUGE_VALF}) {
    std::vector<CheckpointPiece> pieces = state.pieces();
    const Rectangle& r = pieces.back().rectangle;
    std::vector<float> flat(pieces.back().flat.begin(), pieces.back().flat.end());
    flat.at(r.offset + (r.rows - 1) * r.row_stride + r.columns - 1) = value;
    pieces.back().flat = flat;
    CheckpointWriter writer(options_of(folder.path()));
    writer.start(manifest_of(job, 2), pieces);
    EXPECT_THAT(writer.wait(), AllOf(HasSubstr("step 2 was not written"),
                                     HasSubstr(std::isnan(value) ? " is nan" : " is inf")));
  }
  EXPECT_THAT(names_in(folder.path()), testing::ElementsAre("step-00000001"));
}

TEST(Checkpoint, AReadOnlyFolderIsRefusedAtTheStart) {
  TemporaryFolder folder;
  const SmallDisk disk(folder / "disk");
  if (!disk.mounted()) GTEST_SKIP() << "needs the right to mount";
  ::mount("tmpfs", (folder / "disk").c_str(), "tmpfs", MS_REMOUNT | MS_RDONLY, nullptr);
  for (const char* root : {"disk", "disk/run"})
    EXPECT_THAT(config_error_of([&] { CheckpointWriter(options_of(folder / root)); }),
                AllOf(HasSubstr("checkpoints cannot be written there"),
                      HasSubstr("Read-only file system")));
}

TEST(Checkpoint, AFileInPlaceOfTheFolderIsRefused) {
  TemporaryFolder folder;
  write_file(folder / "run", "x");
  EXPECT_THAT(config_error_of([&] { CheckpointWriter(options_of(folder / "run")); }),
              AllOf(HasSubstr("run"), HasSubstr("cannot be written there")));
}

}  // namespace
}  // namespace trainyard
