#include "backends/common/calibration/calibration.h"

#include <gtest/gtest.h>

#include <fstream>

#include "backends/common/calibration/measure.h"
#include "core/config/load.h"
#include "core/error.h"
#include "simulator/timing.h"
#include "tests/temporary_folder.h"

namespace trainyard {
namespace {

TEST(Fit, FindsTheTermsThatMadeTheValues) {
  std::vector<Observation> all;
  for (double flops : {1e3, 1e6, 1e9})
    for (double bytes : {1e2, 1e5})
      all.push_back({{1, flops, bytes}, 3 + 2e-5 * flops + 4e-4 * bytes});
  const Coefficients c = fit_relative(all);
  EXPECT_NEAR(c[0], 3, 1e-6);
  EXPECT_NEAR(c[1], 2e-5, 1e-11);
  EXPECT_NEAR(c[2], 4e-4, 1e-10);
}

// Errors count relative to c t: the sum of (v - c t) t / (c t)^2 is 0 where c is the mean of v / t,
// here of 1 and 3. Plain least squares would give (1 + 300) / (1 + 100).
TEST(Fit, WeighsErrorsByWhatTheyAreOf) {
  const std::vector<Observation> all{{{1, 0, 0}, 1}, {{10, 0, 0}, 30}};
  const Coefficients c = fit_relative(all);
  EXPECT_NEAR(c[0], 2, 1e-9);
  EXPECT_EQ(c[1], 0);
  EXPECT_NEAR(error_of(c, all).mean, (1.0 + 1.0 / 3) / 2, 1e-9);
  EXPECT_NEAR(error_of(c, all).largest, 1, 1e-9);
}

// Weighed by the values, 1 of 1, 2 and 3 would count nine times as much as 3, and the fit be 1.35.
TEST(Fit, ValuesThatScatterAreMetOnAverage) {
  std::vector<Observation> all;
  for (const double size : {1e3, 1e5, 1e7})
    for (const double scatter : {0.5, 1.0, 1.5})
      all.push_back({{1, size, 0}, scatter * (4 + 2e-4 * size)});
  const Coefficients c = fit_relative(all);
  EXPECT_NEAR(c[0], 4, 1e-6);
  EXPECT_NEAR(c[1], 2e-4, 1e-10);
}

// Values that fall with size would need a negative cost of a byte.
TEST(Fit, NoCostIsNegative) {
  const std::vector<Observation> all{{{1, 0, 1}, 5}, {{1, 0, 2}, 4}, {{1, 0, 3}, 3}};
  for (const double c : fit_relative(all)) EXPECT_GE(c, 0);
}

TEST(Calibration, ThreadsAreWhatTheCoresSharedOutLeaveARank) {
  EXPECT_EQ(thread_counts(1), (std::vector<std::int32_t>{1}));
  EXPECT_EQ(thread_counts(2), (std::vector<std::int32_t>{1, 2}));
  EXPECT_EQ(thread_counts(6), (std::vector<std::int32_t>{1, 2, 3, 6}));
}

// A machine of two cores: kernels take 2 us and 10 ps a FLOP or 5 ps with two threads, calls work
// for 20 us and 3 ns a byte and then wait for 7 us.
Samples made_up() {
  Samples samples;
  for (const std::int32_t threads : {1, 2}) {
    for (const char* name : {"gemm_forward", "attention_forward"})
      for (const double flops : {1e6, 1e7, 1e8})
        samples.kernels.push_back(
            {name, threads, flops, 1e3, 2 + flops * (threads == 1 ? 10e-6 : 5e-6)});
    samples.kernels.push_back({"zero", threads, 0, 4e6, 400});
  }
  for (const Op op : {Op::all_reduce, Op::all_gather, Op::reduce_scatter, Op::broadcast, Op::send})
    for (const std::int32_t ranks : {2, 4})
      for (const double bytes : {1e3, 1e4, 1e5, 1e6}) {
        const double shared = bytes * (ranks - 1) / ranks;
        const double received = op == Op::send ? bytes : op == Op::all_reduce ? 2 * shared : shared;
        const double work = 20 + 3e-3 * received;
        samples.calls.push_back({op, ranks, bytes, work * ranks / 2 + 7, work});
      }
  return samples;
}

Job load_with(const std::filesystem::path& profile, const std::string& more) {
  return load_job({},
                  {"model.layers=2", "model.hidden=64", "model.heads=2", "model.vocab=256",
                   "batch.sequence_length=32", "batch.global_sequences=4",
                   "training.precision=fp32", "cluster.profile=" + profile.string(), more},
                  TRAINYARD_SCENARIOS);
}

TEST(Calibration, AProfileMakesTheTimersSayWhatWasMeasured) {
  TemporaryFolder folder;
  const auto path = folder.path() / "machine.toml";
  std::ofstream(path) << profile_text(calibrate(made_up(), {"Some \"CPU\"", 2, {1 << 30}}), "test");
  const Job alone = load_with(path, "parallel.data=1"), four = load_with(path, "parallel.data=4");
  EXPECT_EQ(alone.cluster.gpu.name, "Some \"CPU\", 2 cores");
  EXPECT_EQ(threads_of_rank(alone), 2);
  EXPECT_EQ(threads_of_rank(four), 1);

  KernelSpec product;
  product.kind = KernelKind::gemm_forward;
  product.flops = 3e7;
  product.dtype = DType::fp32;
  product.read = {900};
  product.written = {100};
  EXPECT_NEAR(to_microseconds(KernelTimer(four.cluster.gpu, {}, 1).time(product)), 302, 0.1);
  EXPECT_NEAR(to_microseconds(KernelTimer(four.cluster.gpu, {}, 2).time(product)), 152, 0.1);
  EXPECT_NEAR(to_microseconds(KernelTimer(four.cluster.gpu, {}, 9).time(product)), 152, 0.1);

  const CollectiveTimer calls(four.cluster, four.network);
  EXPECT_NEAR(to_microseconds(calls.work(Op::all_reduce, 4, {80'000})), 20 + 0.003 * 120'000, 0.1);
  EXPECT_NEAR(to_microseconds(calls.time(Op::all_reduce, {.ranks = 4}, {80'000})), 7, 0.1);
  EXPECT_NEAR(to_microseconds(calls.work(Op::all_gather, 4, {80'000})), 20 + 0.003 * 60'000, 0.1);
  EXPECT_NEAR(to_microseconds(calls.work(Op::send, 2, {80'000})), 20 + 0.003 * 80'000, 0.1);

  // The fastest product does 1e8 FLOPs in 1002 us on a core, or 502 us on two; a rank has its
  // share of the two cores.
  const double core = 1e8 / 1002e-6;
  EXPECT_NEAR(alone.cluster.gpu.peak_fp32.value, 2 * core, 1e-4 * core);
  EXPECT_NEAR(four.cluster.gpu.peak_fp32.value, core / 2, 1e-4 * core);
}

// Calls on devices use no processor: all of a call is waited for.
TEST(Calibration, AProfileOfDevicesIsOfTheirPrecisionAndSharesNoCores) {
  TemporaryFolder folder;
  const auto path = folder.path() / "gpus.toml";
  Samples samples = made_up();
  std::erase_if(samples.kernels, [](const KernelSample& s) { return s.threads > 1; });
  for (CallSample& s : samples.calls) s.work_us = 0, s.us = 10 + 2e-3 * s.bytes;
  samples.device = {.launch_us = 2.5, .graph_launch_us = 0.75, .copy_gbs = 50};
  const Machine gpus{"Some GPU", 64, {80LL << 30}, 4, 108, Precision::bf16};
  std::ofstream(path) << profile_text(calibrate(samples, gpus), "test");
  const Job job =
      load_job({},
               {"model.layers=2", "model.hidden=64", "model.heads=2", "model.vocab=256",
                "batch.sequence_length=32", "batch.global_sequences=4", "training.precision=bf16",
                "parallel.data=4", "cluster.profile=" + path.string()},
               TRAINYARD_SCENARIOS);
  const GpuProfile& gpu = job.cluster.gpu;
  EXPECT_EQ(gpu.name, "Some GPU");
  EXPECT_EQ(gpu.sms, 108);
  EXPECT_EQ(job.cluster.node.gpus, 4);
  EXPECT_EQ(job.cluster.node.cores, 0);
  EXPECT_EQ(gpu.host_launch_us, 2.5);
  EXPECT_EQ(gpu.graph_launch_us, 0.75);
  EXPECT_EQ(job.cluster.node.pcie.value, 50e9);
  // The fastest product: 1e8 FLOPs in 1002 us; the fastest kernel without any: 4 MB in 400 us.
  EXPECT_NEAR(gpu.peak_bf16.value, 1e8 / 1002e-6, 1e7);
  EXPECT_EQ(gpu.peak_fp32.value, 0);
  EXPECT_NEAR(gpu.memory_bandwidth.value, 1e10, 1e5);
  const CollectiveTimer calls(job.cluster, job.network);
  EXPECT_EQ(calls.work(Op::send, 2, {80'000}).value, 0);
  EXPECT_NEAR(to_microseconds(calls.transfer({80'000}, Tier::node, 1)), 10 + 2e-3 * 80'000, 0.1);
}

TEST(Calibration, AProfileTakesThePlaceOfAPreset) {
  TemporaryFolder folder;
  const auto path = folder.path() / "machine.toml";
  std::ofstream(path) << profile_text(calibrate(made_up(), {"CPU", 2, {1 << 30}}), "test");
  const Job job = load_with(path, "cluster.preset=a100-8");
  EXPECT_EQ(job.cluster.gpu.peak_bf16.value, 0);
  EXPECT_EQ(job.cluster.node.nvlink.value, 0);
  EXPECT_THROW(load_with(folder.path() / "missing.toml", "seed=1"), ConfigError);
  EXPECT_THROW(load_with(path, "cluster.gpu.measured_threads=[1]"), ConfigError);
  EXPECT_THROW(load_with(path, "cluster.gpu.measured_kernels.gem.t0_us=[1,1]"), ConfigError);
}

}  // namespace
}  // namespace trainyard
