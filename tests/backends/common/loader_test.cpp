#include "backends/common/loader.h"

#include <gmock/gmock.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <fstream>

#include "tests/temporary_folder.h"

namespace trainyard {
namespace {

using namespace std::chrono_literals;
using testing::AllOf;
using testing::HasSubstr;
using Rows = std::vector<std::int32_t>;

class TextData {
 public:
  TextData() {
    std::string text;
    for (int i = 0; i < 201; ++i) text += static_cast<char>(i);
    data_.emplace(DatasetOptions{.files = {write_file(folder_ / "t", text)}, .sequence = 4});
  }
  const Dataset& operator*() const { return *data_; }
  SamplerState start() const { return {.seed = 3, .samples = 50}; }

  // The rows of a step's global batch, straight from the sampler.
  Rows global_batch(SamplerState& state, std::int64_t rows) const {
    Rows batch;
    for (const std::int64_t sample : next_samples(state, rows)) {
      Rows row(5);
      data_->read(Split::training, sample, row);
      batch.insert(batch.end(), row.begin(), row.end());
    }
    return batch;
  }

 private:
  TemporaryFolder folder_;
  std::optional<Dataset> data_;
};

// The message of whatever `action` throws.
template <class Action>
std::string error_of(Action&& action) {
  try {
    action();
  } catch (const std::exception& error) {
    return error.what();
  }
  return "";
}

TEST(ThreadLoader, DeliversTheSamplersRowsToEveryDataRank) {
  const TextData data;
  const LoaderShape shape{
      .global_rows = 6, .data_ranks = 3, .node_data_ranks = {0, 1, 2}, .processes = 3};
  BatchReader reader(*data, data.start(), shape);
  std::vector<Loader> loaders;
  for (int rank = 0; rank < 3; ++rank)
    loaders.emplace_back(reader.address(), shape, Loader::Place{rank, rank}, data.start());
  SamplerState expected = data.start();
  for (int step = 0; step < 30; ++step) {  // more than three epochs of 50 samples
    const Rows batch = data.global_batch(expected, 6);
    Rows got;
    for (Loader& loader : loaders) {
      const auto rows = loader.next(10s);
      got.insert(got.end(), rows.begin(), rows.end());
      EXPECT_EQ(loader.state(), expected);
    }
    ASSERT_EQ(got, batch) << step;
  }
}

TEST(ThreadLoader, ANodeReadsOnlyTheRowsOfItsDataRanks) {
  const TextData data;
  const LoaderShape shape{.global_rows = 6, .data_ranks = 3, .node_data_ranks = {2}};
  BatchReader reader(*data, data.start(), shape);
  Loader loader(reader.address(), shape, {0, 2}, data.start());
  SamplerState state = data.start();
  const Rows batch = data.global_batch(state, 6);
  const auto rows = loader.next(10s);
  EXPECT_EQ(Rows(rows.begin(), rows.end()), Rows(batch.begin() + 20, batch.end()));
}

TEST(ThreadLoader, GoesOnWithTheSameSamplesAtAnotherDataParallelSize) {
  const TextData data;
  SamplerState expected = data.start(), state = data.start();
  for (const std::int32_t ranks : {2, 3, 1}) {
    LoaderShape shape{.global_rows = 6, .data_ranks = ranks, .node_data_ranks = {}};
    for (std::int32_t r = 0; r < ranks; ++r) shape.node_data_ranks.push_back(r);
    shape.processes = ranks;
    BatchReader reader(*data, state, shape);
    std::vector<Loader> loaders;
    for (std::int32_t r = 0; r < ranks; ++r)
      loaders.emplace_back(reader.address(), shape, Loader::Place{r, r}, state);
    for (int step = 0; step < 4; ++step) {
      const Rows batch = data.global_batch(expected, 6);
      Rows got;
      for (Loader& loader : loaders) {
        const auto rows = loader.next(10s);
        got.insert(got.end(), rows.begin(), rows.end());
      }
      ASSERT_EQ(got, batch) << ranks << " data ranks, step " << step;
    }
    state = loaders[0].state();  // stopped while further batches were already read ahead
  }
}

TEST(ThreadLoader, AnUnusableTokenIsReportedToTheOneWhoWaits) {
  TemporaryFolder folder;
  const Dataset data(
      {.files = {write_file(folder / "bad", "aaaa\xff")}, .vocab = 128, .sequence = 4});
  const LoaderShape shape{};
  const SamplerState start{.seed = 1, .samples = 1};
  BatchReader reader(data, start, shape);
  Loader loader(reader.address(), shape, {}, start);
  EXPECT_THAT(config_error_of([&] { loader.next(10s); }),
              HasSubstr("bad: offset 4: token 4 is 255"));
}

TEST(ThreadLoader, OtherDataThanTheStateIsOfIsRefused) {
  const TextData data;
  SamplerState other = data.start();
  other.samples = 51;
  EXPECT_THAT(config_error_of([&] { BatchReader(*data, other, {}); }),
              AllOf(HasSubstr("50 samples"), HasSubstr("51 when")));
}

TEST(Loader, AnAddressWithoutBatchesIsRefused) {
  EXPECT_THAT(error_of([] { BatchRing::attach("/proc/self/fd/999"); }), HasSubstr("/fd/999"));
  TemporaryFolder folder;
  const auto path = write_file(folder / "x", std::string(100000, 'x')).string();
  EXPECT_THAT(error_of([&] { BatchRing::attach(path); }), HasSubstr("no shared batches"));
}

TEST(Loader, ASlowWriterIsNamedAfterTheTimeOut) {
  BatchRing ring = BatchRing::create({.slots = 1, .readers = 1, .values = 4});
  EXPECT_THAT(error_of([&] { ring.wait_filled(0, 20ms); }),
              AllOf(HasSubstr("has not delivered batch 0 in 20 ms"),
                    HasSubstr(std::to_string(::getpid()))));
}

// Runs `body` in a process of its own, which ends without the parent's clean-up.
template <class Body>
pid_t in_child(Body&& body) {
  const pid_t child = ::fork();
  if (child != 0) return child;
  int code = 1;
  try {
    code = body();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "child: %s\n", error.what());
  }
  ::_exit(code);
}

int exit_code(pid_t child) {
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

std::string wait_for_file(const std::filesystem::path& path) {
  for (int i = 0; i < 1000 && !std::filesystem::exists(path); ++i) ::usleep(10000);
  return read_file(path);
}

void publish_address(const std::filesystem::path& path, const std::string& address) {
  write_file(path.string() + ".part", address);
  std::filesystem::rename(path.string() + ".part", path);
}

TEST(Loader, ProcessesShareOneReader) {
  TemporaryFolder folder;
  const TextData data;
  const LoaderShape shape{
      .global_rows = 4, .data_ranks = 2, .node_data_ranks = {0, 1}, .processes = 2};
  const auto use = [&](Loader loader, std::int32_t rank) {
    SamplerState expected = data.start();
    for (int step = 0; step < 50; ++step) {
      const Rows batch = data.global_batch(expected, 4);
      const auto rows = loader.next(10s);
      if (!std::equal(rows.begin(), rows.end(), batch.begin() + rank * 10)) return 1;
    }
    return 0;
  };
  const pid_t second = in_child([&] {
    const std::string address = wait_for_file(folder / "address");
    return use(Loader(address, shape, {1, 1}, data.start()), 1);
  });
  BatchReader reader(*data, data.start(), shape);
  publish_address(folder / "address", reader.address());
  EXPECT_EQ(use(Loader(reader.address(), shape, {0, 0}, data.start()), 0), 0);
  EXPECT_EQ(exit_code(second), 0);
}

TEST(Loader, AKilledReaderIsNoticedAndLeavesNothingBehind) {
  const auto shared_files = [] {
    int count = 0;
    for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator("/dev/shm"))
      ++count;
    return count;
  };
  TemporaryFolder folder;
  const TextData data;
  const LoaderShape shape{.global_rows = 2};
  const int before = shared_files();
  const pid_t child = in_child([&] {
    BatchReader reader(*data, data.start(), shape);
    publish_address(folder / "address", reader.address());
    ::pause();
    return 0;
  });
  Loader loader(wait_for_file(folder / "address"), shape, {}, data.start());
  EXPECT_EQ(loader.next(10s).size(), 10u);
  BatchRing::attach(read_file(folder / "address")).wait_filled(1, 10s);  // read ahead
  ::kill(child, SIGKILL);
  EXPECT_EQ(exit_code(child), 128 + SIGKILL);
  // What was read ahead is still there; then the loss shows, long before the time-out.
  EXPECT_EQ(loader.next(60s).size(), 10u);
  EXPECT_THAT(error_of([&] {
                while (true) loader.next(60s);
              }),
              HasSubstr(fmt::format("({}) has ended", child)));
  EXPECT_EQ(shared_files(), before);
}

}  // namespace
}  // namespace trainyard
