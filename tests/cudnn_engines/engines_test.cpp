#include <fmt/format.h>
#include <gtest/gtest.h>

#include <utility>

#include "backends/cuda/kernels/cudnn_attention_graphs.h"

namespace trainyard::testing {
namespace {

struct GpuData {
  const char* name;
  int capability, sms, shared_kib;
};
// NVIDIA's data sheets; CUDA C++ Programming Guide, table of compute capabilities.
constexpr GpuData kA100{"NVIDIA A100-SXM4-80GB", 800, 108, 163};
constexpr GpuData kH100{"NVIDIA H100 80GB HBM3", 900, 132, 227};

CudnnDescriptor described(const GpuData& gpu) {
  return cudnn_device(fmt::format(
      R"({{"maxGridSize":[2147483647,65535,65535],"maxBlockSize":[1024,1024,64],)"
      R"("regsPerBlock":65536,"multiProcessorCount":{},"warpSize":32,)"
      R"("maxSharedMemoryPerBlock":49152,"maxSharedMemoryPerBlockOptin":{},)"
      R"("reservedSharedMemoryPerBlock":1024,"maxRegistersPerSM":65536,"maxCtasPerSM":32,)"
      R"("maxThreadsPerBlock":1024,"maxThreadsPerSM":2048,"pciDeviceId":0,"isTccDriver":0,)"
      R"("supportCoopLaunch":1,"smClockRateKHz":1400000,"memClockRateKHz":1600000,)"
      R"("l2CacheSize":41943040,"deviceName":"{}","totalGlobalMem":85899345920,)"
      R"("cudaDeviceId":0,"deviceVer":{},"driverVer":13000}})",
      gpu.sms, gpu.shared_kib * 1024, gpu.name, gpu.capability));
}

AttentionCase attention(const cuda_kernels::HeadLayout& heads, bool backward, bool repeatable) {
  AttentionCase what;
  what.heads = heads;
  what.heads.group = heads.heads / heads.kv_heads;
  what.backward = backward;
  what.repeatable = repeatable;
  return what;
}

// What it took or, if cuDNN has none, the reason.
std::string engine(const AttentionCase& what, const CudnnDescriptor& gpu) {
  try {
    return fmt::format("{} bytes", CudnnPlan(cudnn_attention_graph(what), gpu).workspace_bytes());
  } catch (const CudaError& error) {
    return error.what();
  }
}

TEST(CudnnEngines, TakeCausalAttentionAndItsGradients) {
  const std::pair<GpuData, cuda_kernels::HeadLayout> cases[] = {
      {kA100, {4, 12, 12, 1024, 64, 0}},     // GPT-2 124M
      {kH100, {1, 32, 8, 1000, 128, 300}}};  // keys shared, a window
  for (const auto& [data, heads] : cases)
    for (const bool backward : {false, true}) {
      const std::string got = engine(attention(heads, backward, true), described(data));
      EXPECT_TRUE(got.ends_with(" bytes"))
          << data.name << (backward ? ", backward: " : ": ") << got;
    }
}

TEST(CudnnEngines, OfRepeatableGradientsKeepThoseOfAllScores) {
  const CudnnDescriptor gpu = described(kH100);
  const cuda_kernels::HeadLayout heads{4, 12, 12, 1024, 64, 0};
  const std::size_t scores = std::size_t{2} * 4 * 12 * 1024 * 1024;  // in 16 bits
  const auto bytes = [&](bool repeatable) {
    const AttentionCase what = attention(heads, true, repeatable);
    return CudnnPlan(cudnn_attention_graph(what), gpu).workspace_bytes();
  };
  EXPECT_GE(bytes(true), scores);
  EXPECT_LT(bytes(false), scores / 100);
}

TEST(CudnnEngines, HaveNoGradientsOfHeadsAbove128OnAmpere) {
  const cuda_kernels::HeadLayout heads{1, 1, 1, 70, 256, 0};
  EXPECT_EQ(engine(attention(heads, true, true), described(kA100)), "cuDNN has no engine for it");
  EXPECT_TRUE(engine(attention(heads, false, true), described(kA100)).ends_with(" bytes"));
}

}  // namespace
}  // namespace trainyard::testing
