#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>

#include "backends/cuda/communicators.h"
#include "backends/cuda/cuda_backend.h"
#include "core/error.h"
#include "tests/backends/cpu/rank_threads.h"
#include "tests/cuda_on_host/machine.h"
#include "tests/cuda_on_host/nccl_comm.h"
#include "tests/cuda_on_host/stream.h"

namespace trainyard::testing {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;

// The machine as it is until the end of the test.
// Ranks tell each other of a failure within an eighth of the time-out, for which the thread
// sanitizer's are late otherwise.
#ifdef __SANITIZE_THREAD__
constexpr const char* kTimeout = "run.timeout_s=240";
#else
constexpr const char* kTimeout = "run.timeout_s=20";
#endif

class CudaFaults : public ::testing::Test {
 protected:
  ~CudaFaults() override { cuda_on_host::machine() = usual_; }
  cuda_on_host::Machine& machine() { return cuda_on_host::machine(); }
  std::string refusal(std::int32_t place) {
    const Job job = small_job({});
    RealBackendOptions options;
    options.place = place;
    options.memory = Bytes{1 << 20};
    try {
      make_cuda_backend(job, options);
    } catch (const ConfigError& error) {
      return error.what();
    }
    return "none";
  }

 private:
  cuda_on_host::Machine usual_ = cuda_on_host::machine();
};
using ThreadCudaFaults = CudaFaults;
using SlowCudaFaults = CudaFaults;

TEST_F(ThreadCudaFaults, AGpuThatIsNotThereIsRefusedWithThoseThatAre) {
  machine().devices = 2;
  EXPECT_THAT(refusal(2), HasSubstr("GPU 2 is asked for, but this host has 2 (0 to 1)"));
  machine().devices = 0;
  EXPECT_THAT(refusal(0), HasSubstr("this host has no GPU that CUDA can use"));
}

TEST_F(ThreadCudaFaults, AnOldDriverIsNamedWithBothVersions) {
  machine().driver = 12080;
  EXPECT_THAT(refusal(0), HasSubstr("NVIDIA driver supports CUDA 12.8, this build needs 13.0"));
  machine().driver = 0;
  EXPECT_THAT(refusal(0), HasSubstr("this host has no NVIDIA driver"));
}

TEST_F(ThreadCudaFaults, TooLittleMemoryIsToldWithWhatIsNeededAndWhatIsFree) {
  machine().memory = 1 << 19;
  EXPECT_THAT(refusal(0), ContainsRegex("rank 0 needs 0.00 GiB of GPU memory.*out of memory"));
}

// Rank 0 has left another version's id.
class OldStore final : public Store {
 public:
  void set(std::string_view, std::string_view) override {}
  std::optional<std::string> get(std::string_view) override {
    return "22705 " + std::string(NCCL_UNIQUE_ID_BYTES, 'x');
  }
};

TEST_F(ThreadCudaFaults, RanksWithOtherVersionsOfNcclDoNotStart) {
  OldStore store;
  Communicators comms(RankId(1), std::chrono::seconds(1));
  const Mesh mesh = small_job({"parallel.data=2"}).mesh();
  try {
    comms.connect(mesh, &store);
    ADD_FAILURE() << "no error";
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), HasSubstr("rank 0 has NCCL 2.27.5, rank 1 has 2.28.0"));
  }
}

TEST_F(ThreadCudaFaults, ARankThatDoesNotComeIsMissedInTime) {
  RanksHow how;
  const Job job = small_job({"parallel.data=2", "run.timeout_s=0.5"});
  const auto make = [](const Job& j, const RealBackendOptions& options) {
    if (index(options.rank) == 1) throw std::runtime_error("gone");
    return make_cuda_backend(j, options);
  };
  const RanksRun run = run_ranks(job, make, how);
  EXPECT_THAT(run.problems[0], HasSubstr("connecting all ranks by NCCL did not end within 0.5 s"));
}

TEST_F(ThreadCudaFaults, AnErrorOfNcclEndsAllRanksAndNamesTheInstruction) {
  machine().launch_polls = 0;  // the call is given; what becomes of it shows beside any call
  machine().faulty_device = 1;
  machine().failing_call = 4;
  const RanksRun run = run_ranks(small_job({"parallel.tensor=2", kTimeout}), make_cuda_backend);
  EXPECT_THAT(run.problems[1],
              AllOf(HasSubstr("rank 1: NCCL: unhandled system error (the test wants this"),
                    ContainsRegex("in instruction [0-9]+ of step 0 .all_reduce on stream tensor"),
                    HasSubstr("; rank 0 is at instruction"), HasSubstr("last instructions:")));
  EXPECT_THAT(run.problems[0], HasSubstr("a peer has closed its connection"));
}

TEST_F(ThreadCudaFaults, ARankThatHangsInACollectiveIsFoundByItsTimeOut) {
  machine().faulty_device = 0;
  machine().hanging_call = 4;
  const RanksRun run =
      run_ranks(small_job({"parallel.tensor=2", "run.timeout_s=0.7"}), make_cuda_backend);
  EXPECT_THAT(run.first_problem(),
              AllOf(HasSubstr("nothing went on for 0.7 s"),
                    ContainsRegex("in instruction [0-9]+ of step 0 .all_reduce on stream tensor"),
                    ContainsRegex("running +instruction")));
}

// Its memory was freed while it was still written to.
TEST_F(SlowCudaFaults, WorkThatDoesNotEndKeepsItsMemoryAndDoesNotHoldUpTheRank) {
  machine().slow_stream = static_cast<int>(Stream::compute);
  machine().slow_us = 4'000'000;
  constexpr int kGpu = 7;  // of no other test: its streams stay
  const auto make = [](const Job& job, RealBackendOptions options) {
    options.place = kGpu;
    return make_cuda_backend(job, options);
  };
  const auto start = std::chrono::steady_clock::now();
  const RanksRun run = run_ranks(small_job({"run.timeout_s=0.3"}), make);
  EXPECT_THAT(run.first_problem(), HasSubstr("nothing went on for 0.3 s"));
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(3));
  std::size_t free = 0, total = 0;
  cudaSetDevice(kGpu);
  cudaMemGetInfo(&free, &total);
  cudaSetDevice(0);
  EXPECT_LT(free, total);
}

TEST_F(ThreadCudaFaults, ARankThatDiesBetweenStepsEndsTheOthersWhoNameIt) {
  RanksHow how;
  how.before_step = [](std::int32_t rank, int step, Program&) {
    if (rank == 2 && step == 1) throw std::runtime_error("died");
  };
  const RanksRun run = run_ranks(small_job({"parallel.data=2", "parallel.pipeline=2", kTimeout}),
                                 make_cuda_backend, how);
  EXPECT_EQ(run.problems[2], "died");
  for (const int rank : {0, 1, 3})
    EXPECT_THAT(run.problems[static_cast<std::size_t>(rank)], HasSubstr("rank is silent: 2"));
}

// Each call was slept over for a millisecond and more, once for each time that NCCL was asked.
TEST_F(ThreadCudaFaults, ACallThatAThreadOfNcclsLaunchesIsNotSleptOver) {
  machine().launch_polls = 10;
  RanksHow how;
  how.steps = 1;
  const auto start = std::chrono::steady_clock::now();
  const RanksRun run = run_ranks(small_job({"parallel.tensor=2"}), make_cuda_backend, how);
  EXPECT_EQ(run.first_problem(), "");
  // 4 layers, 4 sequences and 4 collectives of each took 1 + 2 + … + 32 + 4 x 50 ms.
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::milliseconds(64 * 263 / 2));
}

TEST_F(ThreadCudaFaults, MessagesGoWithoutACopyAndAsWellWithOneWhereNcclRefuses) {
  std::atomic<int> most{0};
  RanksHow how;
  how.steps = 1;
  how.before_step = [&](std::int32_t, int, Program&) {
    most = std::max(most.load(), cuda_on_host::nccl_registrations());
  };
  const Job job = small_job({"parallel.tensor=2", "parallel.pipeline=2"});
  const RanksRun without = run_ranks(job, make_cuda_backend, how);
  EXPECT_EQ(without.first_problem(), "");
  // Of each rank: all ranks', the tensor ranks' two, and two with the other stage, both ways.
  EXPECT_GE(most, 4 * (1 + 2 + 2));
  EXPECT_EQ(cuda_on_host::nccl_registrations(), 0);

  machine().nccl_registers = machine().nccl_memory = false;
  most = 0;
  const RanksRun with = run_ranks(job, make_cuda_backend, how);
  EXPECT_EQ(with.first_problem(), "");
  EXPECT_EQ(most, 0);
  EXPECT_EQ(with.losses, without.losses);
}

TEST_F(ThreadCudaFaults, AFailureTakesRegistrationsBackToo) {
  machine().faulty_device = 1;
  machine().failing_call = 4;
  const RanksRun run = run_ranks(small_job({"parallel.tensor=2", kTimeout}), make_cuda_backend);
  EXPECT_NE(run.first_problem(), "");
  EXPECT_EQ(cuda_on_host::nccl_registrations(), 0);
  EXPECT_EQ(cuda_on_host::device_problem(), "");
}

}  // namespace
}  // namespace trainyard::testing
