#pragma once
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cstdint>
#include <type_traits>

#include "backends/cuda/kernels/cuda_error.h"
#include "backends/cuda/kernels/launch.h"

namespace trainyard::cuda_kernels {

using bf16 = __nv_bfloat16;
using fp16 = __half;

// The dynamic shared memory of a block.
extern __shared__ uint4 dynamic_shared_memory[];

inline constexpr int kWarp = 32;
inline constexpr unsigned kAllLanes = 0xffffffffU;

// A matrix in device memory, as kernels see it.
template <class T>
struct View {
  T* data = nullptr;
  std::int64_t rows = 0, columns = 0, stride = 0;
  __host__ __device__ T* row(std::int64_t i) const { return data + i * stride; }
  __host__ __device__ T& at(std::int64_t i, std::int64_t j) const { return data[i * stride + j]; }
};

template <class T>
constexpr DType label() {
  using U = std::remove_const_t<T>;
  if constexpr (std::is_same_v<U, float>) return DType::fp32;
  if constexpr (std::is_same_v<U, bf16>) return DType::bf16;
  if constexpr (std::is_same_v<U, fp16>) return DType::fp16;
  if constexpr (std::is_same_v<U, std::int32_t>) return DType::int32;
  return DType::uint8;
}

template <class T>
View<T> view_of(const Matrix& m) {
  return {static_cast<T*>(m.data), m.rows, m.columns, m.row_stride};
}
template <class T>
View<T> operand(const CudaLaunch& launch, std::size_t index) {
  return view_of<T>(operand_of(launch, index, label<T>()));
}
template <class T>
View<T> operand(const CudaLaunch& launch, std::size_t index, std::int64_t rows,
                std::int64_t columns) {
  return view_of<T>(operand_of(launch, index, label<T>(), {rows, columns}));
}

// Calls f(T{}) with the storage type of `dtype`.
template <class F>
void with_storage(const CudaLaunch& launch, DType dtype, F f) {
  switch (dtype) {
    case DType::fp32:
      return f(float{});
    case DType::bf16:
      return f(bf16{});
    case DType::fp16:
      return f(fp16{});
    default:
      expect(launch, false, "computes in fp32, bf16 or fp16");
  }
}

// Where a kernel runs; more than 48 KiB of shared memory have to be asked for.
struct Place {
  dim3 blocks, threads;
  cudaStream_t stream = nullptr;
  std::size_t shared_bytes = 0;
};

inline constexpr std::size_t kUsualSharedBytes = 48 * 1024;

// The one way kernels are launched.
template <class... Parameters, class... Arguments>
void run_on(const Place& place, void (*kernel)(Parameters...), const Arguments&... arguments) {
  if (place.shared_bytes > kUsualSharedBytes)
    require(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                 static_cast<int>(place.shared_bytes)),
            "cudaFuncSetAttribute");
  cudaLaunchConfig_t config{};
  config.gridDim = place.blocks;
  config.blockDim = place.threads;
  config.dynamicSmemBytes = place.shared_bytes;
  config.stream = place.stream;
  require(cudaLaunchKernelEx(&config, kernel, static_cast<Parameters>(arguments)...),
          "cudaLaunchKernelEx");
}

__device__ inline float to_float(float x) { return x; }
__device__ inline float to_float(bf16 x) { return __bfloat162float(x); }
__device__ inline float to_float(fp16 x) { return __half2float(x); }

template <class T>
__device__ T from_float(float x) {
  if constexpr (std::is_same_v<T, float>) return x;
  if constexpr (std::is_same_v<T, bf16>) return __float2bfloat16_rn(x);
  if constexpr (std::is_same_v<T, fp16>) return __float2half_rn(x);
}

// 16 bytes of a row: what a thread reads or writes at a time.
template <class T>
inline constexpr int kPack = 16 / static_cast<int>(sizeof(T));

template <class T>
struct alignas(16) Raw {
  T v[kPack<T>];
};

// Elements of a row in arithmetic type. Elements past its end are zero, and are not stored.
template <class T>
struct Pack {
  float v[kPack<T>];
};

// Whether every pack of the matrix lies on 16 bytes. One that does not is read by elements.
template <class T>
bool has_packs(const View<T>& m) {
  return reinterpret_cast<std::uintptr_t>(m.data) % 16 == 0 &&
         (m.rows <= 1 || m.stride % kPack<T> == 0);
}

template <class T>
__device__ Raw<T> load_raw(const T* from, std::int64_t count, bool packed) {
  Raw<T> raw;
  if (packed && count >= kPack<T>) {
    raw = *reinterpret_cast<const Raw<T>*>(from);
  } else {
    for (int i = 0; i < kPack<T>; ++i) raw.v[i] = i < count ? from[i] : T{};
  }
  return raw;
}

template <class T>
__device__ void store_raw(const Raw<T>& raw, T* to, std::int64_t count, bool packed) {
  if (packed && count >= kPack<T>) {
    *reinterpret_cast<Raw<T>*>(to) = raw;
  } else {
    for (int i = 0; i < kPack<T>; ++i)
      if (i < count) to[i] = raw.v[i];
  }
}

template <class T>
__device__ Pack<T> load(const T* from, std::int64_t count, bool packed) {
  const Raw<T> raw = load_raw(from, count, packed);
  Pack<T> pack;
  for (int i = 0; i < kPack<T>; ++i) pack.v[i] = i < count ? to_float(raw.v[i]) : 0.0F;
  return pack;
}

template <class T>
__device__ void store(const Pack<T>& pack, T* to, std::int64_t count, bool packed) {
  Raw<T> raw;
  for (int i = 0; i < kPack<T>; ++i) raw.v[i] = from_float<T>(pack.v[i]);
  store_raw(raw, to, count, packed);
}

// A thread's share of a matrix that is cut into packs, row by row.
struct PackGrid {
  std::uint32_t per_row = 1, total = 0;
};
struct PackPlace {
  std::int64_t row, column;  // of the pack's first element
};

template <class T>
__device__ PackPlace place_of(const PackGrid& packs, std::uint32_t pack) {
  return {pack / packs.per_row, std::int64_t{pack % packs.per_row} * kPack<T>};
}

template <class T>
PackGrid packs_of(const CudaLaunch& launch, std::int64_t rows, std::int64_t columns) {
  const std::int64_t per_row = (columns + kPack<T> - 1) / kPack<T>;
  expect(launch, rows * per_row < (std::int64_t{1} << 32), "has 2^32 packs or more");
  return {static_cast<std::uint32_t>(per_row), static_cast<std::uint32_t>(rows * per_row)};
}

inline constexpr int kThreads = 256;  // of a block of a kernel without a reason for another number

// A thread for each of `work` items.
// Places in a sequence of the tokens that a rank has of it: ContextTokens, on the device.
struct OwnPlaces {
  std::int64_t own = 1;                // tokens
  std::int64_t piece = 1;              // of the first run of neighbours
  std::int64_t first = 0, second = 0;  // places where the runs begin

  __device__ std::int64_t at(std::int64_t token) const {
    return token < piece ? first + token : second + token - piece;
  }
};

inline OwnPlaces own_places(const KernelContext& c, std::int64_t sequence) {
  const ContextTokens of{sequence, c.context_size};
  if (of.ranks == 1) return {sequence, sequence, 0, 0};
  return {of.own(), of.piece(), of.place(c.context_rank, 0), of.place(c.context_rank, of.piece())};
}

inline Place threads_for(const CudaLaunch& launch, std::int64_t work) {
  return {dim3(static_cast<unsigned>((work + kThreads - 1) / kThreads)), dim3(kThreads),
          launch.stream, 0};
}
// A warp for each of `work` items.
inline Place warps_for(const CudaLaunch& launch, std::int64_t work) {
  return threads_for(launch, work * kWarp);
}

__device__ inline std::uint32_t thread_number() { return blockIdx.x * blockDim.x + threadIdx.x; }

template <class C>
__device__ C warp_sum(C x) {
  for (int bits = kWarp / 2; bits > 0; bits /= 2) x += __shfl_xor_sync(kAllLanes, x, bits);
  return x;
}
__device__ inline float warp_max(float x) {
  for (int bits = kWarp / 2; bits > 0; bits /= 2) x = fmaxf(x, __shfl_xor_sync(kAllLanes, x, bits));
  return x;
}

// Sum over the block's threads, in an order that the block's size fixes; all of them get it.
template <class C>
__device__ C block_sum(C x) {
  __shared__ C partial[kWarp];
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  x = warp_sum(x);
  __syncthreads();  // of an earlier sum, all have read
  if (lane == 0) partial[warp] = x;
  __syncthreads();
  const int warps = static_cast<int>(blockDim.x) / kWarp;
  return warp_sum(lane < warps ? partial[lane] : C{0});
}
__device__ inline float block_max(float x) {
  __shared__ float partial[kWarp];
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  x = warp_max(x);
  __syncthreads();
  if (lane == 0) partial[warp] = x;
  __syncthreads();
  const int warps = static_cast<int>(blockDim.x) / kWarp;
  return warp_max(lane < warps ? partial[lane] : -INFINITY);
}

}  // namespace trainyard::cuda_kernels
