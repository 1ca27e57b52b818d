#include <gtest/gtest.h>

#include <array>

#include "core/error.h"
#include "simulator/timing.h"
#include "tests/simulator/profiles.h"

namespace trainyard {
namespace {

using K = KernelKind;

KernelSpec attention(K kind, std::array<std::int64_t, 4> batch_heads_sequence_dim,
                     std::int64_t window = 0) {
  const auto [b, h, s, d] = batch_heads_sequence_dim;
  KernelSpec spec;
  spec.kind = kind;
  spec.shape = {b, h, h, s, d, window};
  return spec;
}

double us_of(const KernelTimer& timer, const KernelSpec& spec) {
  return to_microseconds(timer.time(spec));
}

Software with_attention(const std::string& name) {
  Software software;
  software.attention = name;
  return software;
}

// TFLOPS of forward + backward, causal halved, 16k tokens of 2048 hidden.
double both_ways_tflops(const KernelTimer& timer, std::int64_t sequence, std::int64_t dim) {
  const std::array<std::int64_t, 4> shape{16384 / sequence, 2048 / dim, sequence, dim};
  const double time_us = us_of(timer, attention(K::attention_forward, shape)) +
                         us_of(timer, attention(K::attention_backward, shape));
  return 7e-6 * 16384 * 2048 * static_cast<double>(sequence) / time_us;
}

// Bar labels of flash-attention 0251105 assets, causal, s = 512 … 16k.
TEST(FlashAttention, FollowsThePublishedChartsOnA100) {
  const KernelTimer flash2(load_gpu("a100-sxm-80"), with_attention("flash2"));
  const KernelTimer flash1(load_gpu("a100-sxm-80"), with_attention("flash1"));
  const std::array<double, 6> wide2{99, 133, 155, 173, 182, 189};
  const std::array<double, 6> narrow2{88, 119, 140, 156, 165, 171};
  const std::array<double, 6> wide1{55, 62, 69, 76, 80, 83};
  for (std::size_t i = 0; i < 6; ++i) {
    const std::int64_t s = std::int64_t{512} << i;
    EXPECT_NEAR(both_ways_tflops(flash2, s, 128), wide2[i], 0.05 * wide2[i]) << s;
    EXPECT_NEAR(both_ways_tflops(flash2, s, 64), narrow2[i], 0.05 * narrow2[i]) << s;
    EXPECT_NEAR(both_ways_tflops(flash1, s, 128), wide1[i], 0.08 * wide1[i]) << s;
  }
}

// csrc/flash_attn/fmha_api.cpp of FlashAttention 1 takes the kernel for 128 above 64;
// FlashAttention 2 has one for 96.
TEST(FlashAttention, HeadsBetweenTwoKernelsCostWhatTheWiderOneDoes) {
  const std::array<std::int64_t, 4> heads_80{1, 16, 2048, 80}, heads_96{1, 16, 2048, 96},
      heads_128{1, 16, 2048, 128};
  const auto time = [](const char* generation, const std::array<std::int64_t, 4>& shape) {
    const KernelTimer timer(load_gpu("a100-sxm-80"), with_attention(generation));
    return us_of(timer, attention(K::attention_forward, shape));
  };
  EXPECT_EQ(time("flash1", heads_96), time("flash1", heads_128));
  EXPECT_EQ(time("triton", heads_80), time("triton", heads_128));
  EXPECT_EQ(time("flash2", heads_80), time("flash2", heads_96));
  EXPECT_LT(time("flash2", heads_96), 0.9 * time("flash2", heads_128));
}

TEST(FlashAttention, FollowsThePublishedChartsOnH100) {
  const KernelTimer flash3(load_gpu("h100-sxm"), with_attention("flash3"));
  const std::array<double, 6> forward{292, 423, 521, 579, 602, 616};  // FA3 causal, d = 128
  for (std::size_t i = 0; i < 6; ++i) {
    const std::int64_t s = std::int64_t{512} << i;
    const double time_us = us_of(flash3, attention(K::attention_forward, {16384 / s, 16, s, 128}));
    const double tflops = 2e-6 * 16384 * 2048 * static_cast<double>(s) / time_us;
    EXPECT_NEAR(tflops, forward[i], 0.08 * forward[i]) << s;
  }
}

// cudnn-frontend 3929da2 on H200, 64 heads of 64, batch 2, window 1024: forward 358 us at 4k and
// 1499 at 16k, backward 1042 and 4392.
TEST(FlashAttention, WindowMakesTimeLinearInTheSequence) {
  const KernelTimer h200(load_gpu("h200-sxm"), with_attention("cudnn"));
  const auto time = [&](K kind, std::int64_t s) {
    return us_of(h200, attention(kind, {2, 64, s, 64}, 1024));
  };
  EXPECT_NEAR(time(K::attention_forward, 4096), 358, 0.03 * 358);
  EXPECT_NEAR(time(K::attention_forward, 16384), 1499, 0.03 * 1499);
  EXPECT_NEAR(time(K::attention_backward, 4096), 1042, 0.04 * 1042);
  EXPECT_NEAR(time(K::attention_backward, 16384), 4392, 0.04 * 4392);
}

// aiconfigurator, A100 vllm rows, b = 1, d = 128, s = 2k: 8 heads 76 TFLOPS, 16 heads 96, 64 heads
// 127; their 14 us of start include a cache write that training does not do.
TEST(FlashAttention, FewHeadsLeaveSmsIdle) {
  const KernelTimer timer(load_gpu("a100-sxm-80"), with_attention("flash2"));
  const auto tflops = [&](std::int64_t heads) {
    const double time_us =
        us_of(timer, attention(K::attention_forward, {1, heads, 2048, 128})) + 10;
    return 2e-6 * static_cast<double>(heads) * 2048 * 2048 * 128 / time_us;
  };
  EXPECT_NEAR(tflops(8), 76, 0.1 * 76);
  EXPECT_NEAR(tflops(16), 96, 0.1 * 96);
  EXPECT_GT(tflops(64), 127);
}

TEST(FlashAttention, UnknownGenerationNamesTheValidOnes) {
  const KernelTimer timer(load_gpu("a100-sxm-80"), with_attention("flash9"));
  try {
    timer.time(attention(K::attention_forward, {1, 16, 2048, 128}));
    FAIL();
  } catch (const ConfigError& error) {
    EXPECT_NE(std::string(error.what()).find("flash2"), std::string::npos);
  }
}

}  // namespace
}  // namespace trainyard
