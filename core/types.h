#pragma once
#include <cmath>
#include <compare>
#include <cstdint>

namespace trainyard {

// A number with a unit: adds and compares with its own kind, scales by plain numbers, and the
// ratio of two is a plain number.
template <class Tag, class Rep>
struct Quantity {
  Rep value{};

  constexpr auto operator<=>(const Quantity&) const = default;
  constexpr Quantity& operator+=(Quantity o) { return value += o.value, *this; }
  constexpr Quantity& operator-=(Quantity o) { return value -= o.value, *this; }
  friend constexpr Quantity operator+(Quantity a, Quantity b) { return {a.value + b.value}; }
  friend constexpr Quantity operator-(Quantity a, Quantity b) { return {a.value - b.value}; }
  friend constexpr Quantity operator*(Quantity a, Rep k) { return {a.value * k}; }
  friend constexpr Quantity operator*(Rep k, Quantity a) { return {a.value * k}; }
  friend constexpr Quantity operator/(Quantity a, Rep k) { return {a.value / k}; }
  friend constexpr double ratio(Quantity a, Quantity b) {
    return static_cast<double>(a.value) / static_cast<double>(b.value);
  }
};

using Time = Quantity<struct TimeTag, std::int64_t>;  // integer nanoseconds: a point or a span
using Bytes = Quantity<struct BytesTag, std::int64_t>;
using Bandwidth = Quantity<struct BandwidthTag, double>;  // bytes per second
using FlopRate = Quantity<struct FlopRateTag, double>;    // floating-point operations per second

inline constexpr Time kNever{INT64_MAX};

constexpr Time nanoseconds(std::int64_t ns) { return {ns}; }
inline Time microseconds(double us) { return {std::llround(us * 1e3)}; }
inline Time seconds(double s) { return {std::llround(s * 1e9)}; }
constexpr double to_seconds(Time t) { return static_cast<double>(t.value) * 1e-9; }
constexpr double to_microseconds(Time t) { return static_cast<double>(t.value) * 1e-3; }
constexpr Bandwidth gigabytes_per_second(double gbs) { return {gbs * 1e9}; }
constexpr FlopRate teraflops(double tf) { return {tf * 1e12}; }
constexpr double kGiB = 1024.0 * 1024.0 * 1024.0;

inline Time transfer_time(Bytes n, Bandwidth bw) {
  return seconds(static_cast<double>(n.value) / bw.value);
}

enum class RankId : std::int32_t {};
enum class NodeId : std::int32_t {};
enum class LinkId : std::int32_t {};
enum class FlowId : std::int64_t {};

template <class Id>
constexpr auto index(Id id) {
  return static_cast<std::int64_t>(id);
}

}  // namespace trainyard
