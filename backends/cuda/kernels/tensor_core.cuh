#pragma once
#include "backends/cuda/kernels/device.cuh"

namespace trainyard::cuda_kernels {

// Products on tensor cores: tiles [16,16] x [16,8] of a warp, mma.m16n8k16 of PTX ISA 8.5, section
// 9.7.14.5.8, whose fragments are, with g = lane / 4 and t = lane % 4, pairs of elements in a word:
//   left[0…3]: rows g, g + 8, g, g + 8, columns from 2t, 2t, 2t + 8, 2t + 8
//   right[0…1]: column g, rows from 2t, 2t + 8
//   sums[0…3]: row g columns 2t, 2t + 1, row g + 8 columns 2t, 2t + 1
// So the sums of two tiles side by side are, rounded, a left factor as they lie.
struct Left {
  std::uint32_t words[4];
};
struct Right {
  std::uint32_t words[2];
};
struct Sums {
  float v[4];
};

struct Lane {
  int g = static_cast<int>(threadIdx.x) % kWarp / 4, t = static_cast<int>(threadIdx.x) % 4;
};

template <class T>
__device__ void multiply_add(Sums& sums, const Left& a, const Right& b) {
#ifdef __CUDA_ON_HOST__
  cuda_on_host::multiply_tiles(sums.v, a.words, b.words,
                               [](std::uint16_t bits) { return to_float(std::bit_cast<T>(bits)); });
#else
  if constexpr (std::is_same_v<T, bf16>)
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, "
        "{%8,%9}, {%0,%1,%2,%3};"
        : "+f"(sums.v[0]), "+f"(sums.v[1]), "+f"(sums.v[2]), "+f"(sums.v[3])
        : "r"(a.words[0]), "r"(a.words[1]), "r"(a.words[2]), "r"(a.words[3]), "r"(b.words[0]),
          "r"(b.words[1]));
  else
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, "
        "{%8,%9}, {%0,%1,%2,%3};"
        : "+f"(sums.v[0]), "+f"(sums.v[1]), "+f"(sums.v[2]), "+f"(sums.v[3])
        : "r"(a.words[0]), "r"(a.words[1]), "r"(a.words[2]), "r"(a.words[3]), "r"(b.words[0]),
          "r"(b.words[1]));
#endif
}

// Two elements that lie side by side.
template <class T>
__device__ std::uint32_t word_at(const T* at) {
  std::uint32_t word;
  memcpy(&word, at, sizeof word);
  return word;
}

// Two elements of a word, the first in its low half.
template <class T>
__device__ std::uint32_t word_of(T low, T high) {
  std::uint16_t a, b;
  memcpy(&a, &low, sizeof a);
  memcpy(&b, &high, sizeof b);
  return std::uint32_t{b} << 16 | a;
}

// Rows of a head in shared memory. A row is 8 elements longer than kDim, 4 words, so that the words
// of rows 0 … 7 at 2t, as the fragments have them, lie in 32 different banks (4g + t), and those of
// rows 2t at g as well (8t + g / 2, two lanes a word).
template <class T, int kDim>
struct SharedRows {
  static constexpr int kPitch = kDim + 8;
  T* data;

  __device__ T* at(int row, int column) const { return data + row * kPitch + column; }
  static constexpr std::size_t bytes(int rows) {
    return static_cast<std::size_t>(rows) * kPitch * sizeof(T);
  }

  // Rows [first, first + count) of a head in global memory, zero beyond `rows` and `dim`.
  __device__ void load(const View<const T>& head, std::int64_t first, int count, int dim) const {
    constexpr int kPacks = kDim / kPack<T>;
    for (int i = static_cast<int>(threadIdx.x); i < count * kPacks;
         i += static_cast<int>(blockDim.x)) {
      const int r = i / kPacks, c = i % kPacks * kPack<T>;
      Raw<T> raw{};
      if (first + r < head.rows && c < dim) raw = load_raw(head.row(first + r) + c, dim - c, true);
      *reinterpret_cast<Raw<T>*>(at(r, c)) = raw;
    }
  }
  // Rows [row, row + 16), elements [column, column + 16): a left factor.
  __device__ Left left(const Lane& lane, int row, int column) const {
    const T* const from = at(row + lane.g, column + 2 * lane.t);
    return {{word_at(from), word_at(from + 8 * kPitch), word_at(from + 8),
             word_at(from + 8 * kPitch + 8)}};
  }
  // Rows [row, row + 8) as columns of a right factor, elements [column, column + 16) as its rows.
  __device__ Right transposed(const Lane& lane, int row, int column) const {
    const T* const from = at(row + lane.g, column + 2 * lane.t);
    return {{word_at(from), word_at(from + 8)}};
  }
  // Rows [row, row + 16), elements [column, column + 8): a right factor.
  __device__ Right right(const Lane& lane, int row, int column) const {
    const T* const from = at(row + 2 * lane.t, column + lane.g);
    return {{word_of(from[0], from[kPitch]), word_of(from[8 * kPitch], from[9 * kPitch])}};
  }
};

// Sums of two tiles side by side, rounded, as a left factor.
template <class T>
__device__ Left rounded_left(const Sums& a, const Sums& b) {
  const auto pair = [](float low, float high) {
    return word_of(from_float<T>(low), from_float<T>(high));
  };
  return {{pair(a.v[0], a.v[1]), pair(a.v[2], a.v[3]), pair(b.v[0], b.v[1]), pair(b.v[2], b.v[3])}};
}

// Stores sums of 16 rows: those below `rows` of `to`, and elements below `dim`, which is a multiple
// of 8.
template <class T, int kTiles>
__device__ void store_sums(const Lane& lane, const Sums (&sums)[kTiles], const View<T>& to,
                           std::int64_t first, int dim) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const std::int64_t row = first + lane.g + 8 * half;
    if (row >= to.rows) continue;
#pragma unroll
    for (int n = 0; n < kTiles; ++n) {
      if (n * 8 >= dim) continue;
      const std::uint32_t word =
          word_of(from_float<T>(sums[n].v[2 * half]), from_float<T>(sums[n].v[2 * half + 1]));
      memcpy(to.row(row) + n * 8 + 2 * lane.t, &word, sizeof word);
    }
  }
}

}  // namespace trainyard::cuda_kernels
