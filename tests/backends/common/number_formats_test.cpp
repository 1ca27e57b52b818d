#include "backends/common/number_formats.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <utility>

namespace trainyard {
namespace {

// Values and bits by IEEE 754-2019, section 3.4: binary16 has 5 bits of exponent, 10 of mantissa.
TEST(NumberFormats, Fp16HasItsBitsAndRoundsTiesToEven) {
  const std::pair<float, std::uint16_t> expected[] = {
      {0.0f, 0x0000},      {-0.0f, 0x8000},        {1.0f, 0x3c00},     {-2.0f, 0xc000},
      {1.0f / 3, 0x3555},  {65504.0f, 0x7bff},     {65519.0f, 0x7bff}, {65520.0f, 0x7c00},
      {0x1p-14f, 0x0400},  {0x1p-24f, 0x0001},     {0x1p-25f, 0x0000}, {0x3p-25f, 0x0002},
      {0x1p-140f, 0x0000}, {0x1.ffcp-15f, 0x0400}, {2049.0f, 0x6800},  {2051.0f, 0x6802}};
  for (const auto& [value, bits] : expected) EXPECT_EQ(to_fp16(value), bits) << value;
}

TEST(NumberFormats, Bf16IsTheUpperHalfRoundedToEven) {
  const std::pair<float, std::uint16_t> expected[] = {{0.0f, 0x0000},      {-0.0f, 0x8000},
                                                      {1.0f, 0x3f80},      {0x1.01p0f, 0x3f80},
                                                      {0x1.03p0f, 0x3f82}, {INFINITY, 0x7f80}};
  for (const auto& [value, bits] : expected) EXPECT_EQ(to_bf16(value), bits) << value;
}

TEST(NumberFormats, EveryStoredNumberComesBack) {
  for (int i = 0; i < 65536; ++i) {
    const auto bits = static_cast<std::uint16_t>(i);
    if (!std::isnan(from_fp16(bits))) {
      EXPECT_EQ(to_fp16(from_fp16(bits)), bits);
    }
    if (!std::isnan(from_bf16(bits))) {
      EXPECT_EQ(to_bf16(from_bf16(bits)), bits);
    }
  }
  EXPECT_TRUE(std::isnan(from_fp16(to_fp16(NAN))));
  EXPECT_TRUE(std::isnan(from_bf16(to_bf16(NAN))));
}

}  // namespace
}  // namespace trainyard
