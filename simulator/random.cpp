#include "simulator/random.h"

#include <algorithm>
#include <cmath>

namespace trainyard {
namespace {

// Finalizer of SplitMix64 (Steele, Lea and Flood, OOPSLA 2014).
std::uint64_t mix(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15ULL;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

}  // namespace

std::uint64_t random_stream(std::uint64_t seed, std::string_view name) {
  std::uint64_t hash = mix(seed);
  for (const char c : name) hash = mix(hash ^ static_cast<unsigned char>(c));
  return hash;
}

double random_uniform(std::uint64_t stream, std::uint64_t major, std::uint64_t minor) {
  const std::uint64_t bits = mix(mix(stream ^ major) ^ (minor + 0x632be59bd9b4e019ULL));
  return static_cast<double>(bits >> 11) * 0x1p-53;
}

double half_normal(double uniform) {
  const double p = std::min(0.5 + uniform / 2, 1 - 0x1p-53);
  constexpr double kTail = 0.97575;
  if (p <= kTail) {
    const double q = p - 0.5, r = q * q;
    const double top =
        ((((-39.69683028665376 * r + 220.9460984245205) * r - 275.9285104469687) * r +
          138.3577518672690) *
             r -
         30.66479806614716) *
            r +
        2.506628277459239;
    const double bottom =
        ((((-54.47609879822406 * r + 161.5858368580409) * r - 155.6989798598866) * r +
          66.80131188771972) *
             r -
         13.28068155288572) *
            r +
        1;
    return q * top / bottom;
  }
  const double q = std::sqrt(-2 * std::log(1 - p));
  const double top =
      ((((-0.007784894002430293 * q - 0.3223964580411365) * q - 2.400758277161838) * q -
        2.549732539343734) *
           q +
       4.374664141464968) *
          q +
      2.938163982698783;
  const double bottom =
      (((0.007784695709041462 * q + 0.3224671290700398) * q + 2.445134137142996) * q +
       3.754408661907416) *
          q +
      1;
  return -top / bottom;
}

}  // namespace trainyard
