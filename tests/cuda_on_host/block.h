#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <source_location>
#include <stdexcept>

#include "tests/cuda_on_host/include/vector_types.h"

// What a kernel's code sees of its place in the grid.
extern constinit thread_local uint3 threadIdx;
extern constinit thread_local uint3 blockIdx;
extern constinit thread_local dim3 blockDim;
extern constinit thread_local dim3 gridDim;

namespace trainyard::cuda_kernels {
// The dynamic shared memory of the block that runs, as backends/cuda/kernels/device.cuh declares
// it.
extern constinit thread_local uint4 dynamic_shared_memory[];
}  // namespace trainyard::cuda_kernels

namespace trainyard::cuda_on_host {

// A kernel did what a GPU leaves undefined.
class KernelError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

struct Grid {
  dim3 blocks, threads;
  std::size_t shared_bytes = 0;
};

// Runs `kernel` for every thread of every block, block after block; threads of a block take turns
// at barriers and warp operations. From barrier to barrier they run in ascending order or in
// descending, in turns, so that a missing barrier shows. Dynamic shared memory starts as NaN in
// every type. Throws KernelError for threads of a block that wait in different places, warp
// operations that not all lanes named take part in, writes beyond the shared memory asked for.
void run_grid(const Grid& grid, const std::function<void()>& kernel);

using Where = std::source_location;

void sync_threads(const Where& where);
// Brings `value` of every lane named by `mask` to all of them; values[lane] is 8 bytes, and lives
// until the lane's next operation. Only whole warps: mask must be 0xffffffff.
const std::uint64_t* exchange(std::uint32_t mask, std::uint64_t value, const Where& where);
std::uint32_t lane();

}  // namespace trainyard::cuda_on_host
