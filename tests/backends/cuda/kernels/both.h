#pragma once
#include <vector>

#include "backends/cuda/kernels/attention_plans.h"
#include "backends/cuda/kernels/kernels.h"
#include "tests/backends/cpu/kernels/harness.h"

namespace trainyard::testing {

// |cuda - cpu| <= relative * |cpu| + absolute.
struct Bound {
  double relative, absolute;
};

// What results that are rounded to `dtype` once may differ by, if their fp32 sums differ by about
// `sums`: one unit in the last place (2^-7 of the smallest significand in bf16, 2^-10 in fp16), or
// what fp32 arithmetic in another order leaves.
Bound bound_of(DType dtype, double sums = 1e-5);

// A buffer of normal numbers that are exact in `dtype`.
Buffer normal_in(DType dtype, std::string_view name, std::int64_t rows, std::int64_t columns,
                 std::int64_t gap = 0);
Buffer zeros_in(DType dtype, std::int64_t rows, std::int64_t columns, std::int64_t gap = 0);

struct OnGpu {
  int offset = 0;  // bytes by which operands miss being aligned
  AttentionChoice attention{AttentionChoice::Kernels::own, true};
};

// Runs a kernel on the CPU backend and on the (host) GPU, each on copies of the operands, and
// expects the results to agree within `bound`, bytes between rows to be left alone, integers and
// masks to be equal. Returns what the GPU's operands hold afterwards.
std::vector<Buffer> expect_same(const KernelSpec& spec, const std::vector<Buffer>& operands,
                                const KernelContext& context, Bound bound, const OnGpu& how = {});

// Runs a kernel on the (host) GPU alone; results are in the buffers.
void run_on_gpu(const KernelSpec& spec, std::vector<Buffer>& operands, const KernelContext& context,
                const OnGpu& how = {});

}  // namespace trainyard::testing
