#include "tests/simulator/profiles.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "core/error.h"
#include "simulator/timing.h"

namespace trainyard {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> presets(const std::string& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(TRAINYARD_SCENARIOS "/" + folder))
    if (entry.path().extension() == ".toml") names.push_back(entry.path().stem().string());
  return names;
}

KernelSpec square_gemm(std::int64_t size) {
  KernelSpec spec;
  spec.kind = KernelKind::gemm_forward;
  spec.dtype = DType::fp16;
  spec.shape = {size, size, size};
  spec.read = {4 * size * size};
  spec.written = {2 * size * size};
  return spec;
}

// A large product reaches between a third and all of the peak, an empty one microseconds.
TEST(Profiles, EveryGpuTimesAGemmSensibly) {
  ASSERT_GE(presets("gpus").size(), 9u);
  for (const std::string& name : presets("gpus")) {
    const GpuProfile gpu = load_gpu(name);
    const KernelTimer timer(gpu, {});
    const double seconds = to_seconds(timer.time(square_gemm(8192)));
    const double fraction = 2 * 8192.0 * 8192 * 8192 / seconds / gpu.peak_fp16.value;
    EXPECT_GT(fraction, 0.33) << name;
    EXPECT_LT(fraction, 0.95) << name;
    EXPECT_LT(timer.time(square_gemm(64)), microseconds(20)) << name;
  }
}

TEST(Profiles, EveryAttentionOfEveryGpuHasConstants) {
  for (const std::string& name : presets("gpus")) {
    const GpuProfile gpu = load_gpu(name);
    for (const GpuProfile::Attention& attention : gpu.attention) {
      KernelSpec spec;
      spec.kind = KernelKind::attention_backward;
      spec.dtype = DType::fp16;
      spec.shape = {1, 32, 32, 4096, 128, 0};
      const KernelTimer timer(gpu, Software{.attention = attention.name});
      const double tflops = 5e-12 * 32 * 4096.0 * 4096 * 128 / to_seconds(timer.time(spec));
      EXPECT_GT(tflops, 0.12e-12 * gpu.peak_fp16.value) << name << ' ' << attention.name;
      EXPECT_LT(tflops, 0.75e-12 * gpu.peak_fp16.value) << name << ' ' << attention.name;
    }
  }
}

// A 1 GiB all-reduce over a node runs at between half and all of the link (NVLink or PCIe), or up
// to 1.4 of it where the switches add (NVLS, 478 of 371 GB/s on H100).
TEST(Profiles, EveryClusterTimesACollectiveSensibly) {
  ASSERT_GE(presets("clusters").size(), 13u);
  for (const std::string& name : presets("clusters")) {
    const Cluster cluster = load_cluster(name, 4);
    const CollectiveTimer timer(cluster, Network{});
    const double bytes = 1 << 30;
    const double inside = to_seconds(timer.time(Op::all_reduce, {.ranks = 8}, {1 << 30}));
    const Bandwidth link = cluster.node.nvlink.value > 0 ? cluster.node.nvlink : cluster.node.pcie;
    const double bus = 2 * 7.0 / 8 * bytes / inside / link.value;
    EXPECT_GT(bus, 0.5) << name;
    EXPECT_LT(bus, 1.4) << name;
    const GroupShape across{.ranks = 32, .nodes = 4};
    EXPECT_GT(to_seconds(timer.time(Op::all_gather, across, {1 << 30})), 0.9 * inside / 2) << name;
  }
}

}  // namespace
}  // namespace trainyard
