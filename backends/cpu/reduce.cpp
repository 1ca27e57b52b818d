#include "backends/cpu/reduce.h"

#include <Eigen/Core>
#include <algorithm>
#include <array>

#include "core/error.h"

namespace trainyard {
namespace {

template <class T, class Sum>
void reduce_as(std::span<const std::span<const std::byte>> parts, Reduction reduction,
               std::span<std::byte> out) {
  constexpr std::size_t kBlock = 1024;
  std::array<Sum, kBlock> sums;
  T* const to = reinterpret_cast<T*>(out.data());
  const std::size_t elements = out.size() / sizeof(T);
  for (std::size_t first = 0; first < elements; first += kBlock) {
    const std::size_t n = std::min(kBlock, elements - first);
    for (std::size_t p = 0; p < parts.size(); ++p) {
      const T* const from = reinterpret_cast<const T*>(parts[p].data()) + first;
      if (p == 0)
        for (std::size_t i = 0; i < n; ++i) sums[i] = static_cast<Sum>(from[i]);
      else if (reduction == Reduction::sum)
        for (std::size_t i = 0; i < n; ++i) sums[i] += static_cast<Sum>(from[i]);
      else
        for (std::size_t i = 0; i < n; ++i) sums[i] = std::max(sums[i], static_cast<Sum>(from[i]));
    }
    for (std::size_t i = 0; i < n; ++i) to[first + i] = static_cast<T>(sums[i]);
  }
}

}  // namespace

void reduce_in_order(std::span<const std::span<const std::byte>> parts, DType dtype,
                     Reduction reduction, std::span<std::byte> out) {
  switch (dtype) {
    case DType::fp32:
      return reduce_as<float, float>(parts, reduction, out);
    case DType::bf16:
      return reduce_as<Eigen::bfloat16, float>(parts, reduction, out);
    case DType::fp16:
      return reduce_as<Eigen::half, float>(parts, reduction, out);
    case DType::int32:
      return reduce_as<std::int32_t, std::int32_t>(parts, reduction, out);
    default:
      check(false, "no reduction of {}", dtype_name(dtype));
  }
}

}  // namespace trainyard
