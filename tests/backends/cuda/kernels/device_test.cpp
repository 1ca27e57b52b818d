#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "tests/cuda_on_host/block.h"

namespace trainyard::cuda_on_host {
namespace {

// What `run` says when it fails.
template <class Run>
std::string problem_of(Run run) {
  try {
    run();
  } catch (const KernelError& error) {
    return error.what();
  }
  return "";
}

TEST(CudaOnHost, ThreadsMeetAtBarriersAndShareMemory) {
  std::vector<int> out(2 * 96);
  run_grid({dim3(2), dim3(96), 0}, [&] {
    __shared__ int values[96];
    values[threadIdx.x] = static_cast<int>(threadIdx.x);
    __syncthreads();
    out[blockIdx.x * 96 + threadIdx.x] = values[95 - threadIdx.x];
  });
  for (int i = 0; i < 96; ++i) EXPECT_EQ(out[static_cast<std::size_t>(96 + i)], 95 - i);
}

TEST(CudaOnHost, LanesExchangeValues) {
  std::vector<int> down(64), across(64), from(64);
  std::vector<unsigned> votes(64);
  run_grid({dim3(1), dim3(32, 2), 0}, [&] {
    const unsigned t = threadIdx.x + 32 * threadIdx.y;
    const int value = static_cast<int>(t) * 10;
    down[t] = __shfl_down_sync(0xffffffffU, value, 3);
    across[t] = __shfl_xor_sync(0xffffffffU, value, 1);
    from[t] = __shfl_sync(0xffffffffU, value, 7);
    votes[t] = __ballot_sync(0xffffffffU, threadIdx.x < 4);
    __syncwarp();
  });
  EXPECT_EQ(down[0], 30);
  EXPECT_EQ(down[31], 310);  // beyond the last lane a lane gets its own
  EXPECT_EQ(across[32], 330);
  EXPECT_EQ(from[40], 390);
  EXPECT_EQ(votes[63], 15U);
}

// Between barriers threads run in either order in turns: the second reads what is not there yet.
TEST(CudaOnHost, AMissingBarrierGivesAnotherResult) {
  const auto neighbours = [](bool waits) {
    std::vector<int> out(64);
    run_grid({dim3(1), dim3(64), 0}, [&] {
      __shared__ int values[64];
      values[threadIdx.x] = -1;
      __syncthreads();
      values[threadIdx.x] = static_cast<int>(threadIdx.x);
      if (waits) __syncthreads();
      out[threadIdx.x] = values[(threadIdx.x + 63) % 64];
    });
    return out[5];
  };
  EXPECT_EQ(neighbours(true), 4);
  EXPECT_NE(neighbours(false), 4);
}

TEST(CudaOnHost, BarriersThatThreadsDoNotShareAreReported) {
  const std::string apart = problem_of([] {
    run_grid({dim3(1), dim3(64), 0}, [] {
      if (threadIdx.x < 32)
        __syncthreads();
      else
        __syncthreads();
    });
  });
  EXPECT_NE(apart.find("thread 32 of block (0, 0, 0) waits at"), std::string::npos) << apart;
  const std::string ended = problem_of([] {
    run_grid({dim3(1), dim3(64), 0}, [] {
      if (threadIdx.x < 40) __syncthreads();
    });
  });
  EXPECT_NE(ended.find("has ended while others wait"), std::string::npos) << ended;
}

TEST(CudaOnHost, WarpOperationsWithoutAllLanesAreReported) {
  const std::string half = problem_of([] {
    run_grid({dim3(1), dim3(32), 0}, [] {
      if (threadIdx.x < 16) __shfl_xor_sync(0xffffffffU, 1, 1);
    });
  });
  EXPECT_NE(half.find("where not all lanes come"), std::string::npos) << half;
  const std::string absent = problem_of([] {
    run_grid({dim3(1), dim3(20), 0}, [] { __shfl_xor_sync(0xffffffffU, 1, 1); });
  });
  EXPECT_NE(absent.find("lanes that are not there"), std::string::npos) << absent;
}

TEST(CudaOnHost, SharedMemoryStartsAsNaN) {
  bool nan = false;
  run_grid({dim3(1), dim3(1), 64}, [&] {
    nan = std::isnan(reinterpret_cast<float*>(cuda_kernels::dynamic_shared_memory)[15]);
  });
  EXPECT_TRUE(nan);
}

#if !defined(__SANITIZE_ADDRESS__)  // which reports the write itself
TEST(CudaOnHost, WritesBeyondSharedMemoryAreReported) {
  const std::string beyond = problem_of([] {
    run_grid({dim3(1), dim3(1), 64},
             [] { reinterpret_cast<float*>(cuda_kernels::dynamic_shared_memory)[16] = 0; });
  });
  EXPECT_NE(beyond.find("wrote byte 64 of 64"), std::string::npos) << beyond;
}
#endif

TEST(CudaOnHost, GridsThatNoGpuRunsAreRefused) {
  EXPECT_NE(problem_of([] { run_grid({dim3(1), dim3(1025), 0}, [] {}); }), "");
  EXPECT_NE(problem_of([] { run_grid({dim3(1, 70000), dim3(32), 0}, [] {}); }), "");
  cudaLaunchConfig_t config;
  config.blockDim = dim3(1025);
  config.gridDim = dim3(1);
  void (*const nothing)(int) = [](int) {};
  EXPECT_EQ(cudaLaunchKernelEx(&config, nothing, 1), cudaErrorInvalidConfiguration);
  config.blockDim = dim3(32);
  config.dynamicSmemBytes = 60000;
  EXPECT_EQ(cudaLaunchKernelEx(&config, nothing, 1), cudaErrorInvalidValue);
  EXPECT_EQ(cudaFuncSetAttribute(nothing, cudaFuncAttributeMaxDynamicSharedMemorySize, 200000),
            cudaErrorInvalidValue);
}

}  // namespace
}  // namespace trainyard::cuda_on_host
