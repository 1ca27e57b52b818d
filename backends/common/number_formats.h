#pragma once
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>

namespace trainyard {

// 16-bit numbers as stored, from and to fp32; rounded to nearest, ties to even (IEEE 754-2019,
// section 4.3.1).

constexpr float from_bf16(std::uint16_t bits) {
  return std::bit_cast<float>(std::uint32_t{bits} << 16);
}

inline std::uint16_t to_bf16(float value) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  if (std::isnan(value)) return static_cast<std::uint16_t>(bits >> 16 | 0x40);
  return static_cast<std::uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

inline float from_fp16(std::uint16_t bits) {
  const int exponent = bits >> 10 & 31, mantissa = bits & 1023;
  const float sign = (bits & 0x8000) != 0 ? -1.0f : 1.0f;
  if (exponent == 31) return mantissa == 0 ? sign * INFINITY : NAN;
  if (exponent == 0) return sign * std::ldexp(static_cast<float>(mantissa), -24);
  return sign * std::ldexp(static_cast<float>(mantissa + 1024), exponent - 25);
}

inline std::uint16_t to_fp16(float value) {
  const auto sign = static_cast<std::uint16_t>(std::signbit(value) ? 0x8000 : 0);
  if (std::isnan(value)) return sign | 0x7e00;
  const float size = std::fabs(value);
  if (size == 0) return sign;                  // has no exponent
  if (size >= 65520.0f) return sign | 0x7c00;  // halfway from the largest number to the next
  int exponent = 0;
  std::frexp(size, &exponent);
  // Steps of numbers with this exponent, and of those too small for one of their own.
  const int step = std::max(exponent - 11, -24);
  // In units of the step, nearbyint() rounds as asked for; the sum carries into the exponent.
  const auto units = static_cast<std::uint16_t>(std::nearbyint(std::ldexp(size, -step)));
  return sign | static_cast<std::uint16_t>(units + ((step + 24) << 10));
}

}  // namespace trainyard
