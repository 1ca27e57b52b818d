#include "tests/cuda_on_host/nccl_sums.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <stdexcept>

namespace trainyard::cuda_on_host {
namespace {

struct Bf16 {
  std::uint16_t bits = 0;
  Bf16() = default;
  explicit Bf16(float value) {
    std::uint32_t word = std::bit_cast<std::uint32_t>(value);
    if (value == value) word += 0x7fff + (word >> 16 & 1);  // to the nearest, ties to even
    bits = static_cast<std::uint16_t>(word >> 16);
  }
  explicit operator float() const {
    return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
  }
};

// T in memory, sums in S.
template <class T, class S>
void reduce_as(std::span<const std::span<std::byte>> terms, ncclRedOp_t op,
               std::span<std::byte> to) {
  const auto load = [](std::span<const std::byte> from, std::size_t i) {
    T value;
    std::memcpy(&value, from.data() + i * sizeof(T), sizeof(T));
    return static_cast<S>(value);
  };
  for (std::size_t i = 0; i < to.size() / sizeof(T); ++i) {
    S total = load(terms[0], i);
    for (const auto& term : terms.subspan(1)) {
      const S value = load(term, i);
      total = op == ncclMax ? std::max(total, value) : total + value;
    }
    const T result = static_cast<T>(total);
    std::memcpy(to.data() + i * sizeof(T), &result, sizeof(T));
  }
}

}  // namespace

std::size_t size_of(ncclDataType_t type) {
  switch (type) {
    case ncclInt8:
    case ncclUint8:
      return 1;
    case ncclFloat16:
    case ncclBfloat16:
      return 2;
    case ncclInt32:
    case ncclFloat32:
      return 4;
    case ncclFloat64:
      return 8;
  }
  throw std::runtime_error("NCCL: a type of no size");
}

void reduce(std::span<const std::span<std::byte>> terms, ncclDataType_t type, ncclRedOp_t op,
            std::span<std::byte> to) {
  switch (type) {
    case ncclFloat32:
      return reduce_as<float, float>(terms, op, to);
    case ncclFloat64:
      return reduce_as<double, double>(terms, op, to);
    case ncclBfloat16:
      return reduce_as<Bf16, float>(terms, op, to);
    case ncclFloat16:
      return reduce_as<_Float16, float>(terms, op, to);
    case ncclInt32:
      return reduce_as<std::int32_t, std::int32_t>(terms, op, to);
    default:
      throw std::runtime_error("NCCL: no sums of this type");
  }
}

}  // namespace trainyard::cuda_on_host
