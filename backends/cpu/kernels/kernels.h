#pragma once
#include <span>

#include "backends/common/kernel_call.h"
#include "simulator/workers.h"

namespace trainyard {

// Runs one kernel of kernel_table() on its operands in the table's order. Storage is fp32, bf16 or
// fp16, arithmetic fp32. `workers` share the loops; null: the calling thread does all. Repeats bit
// for bit, with any number of workers. Throws InternalError when operands do not fit the spec.
void run_kernel(const KernelSpec& spec, std::span<const Matrix> operands,
                const KernelContext& context, Workers* workers = nullptr);

// The same in double precision, for gradient checks: every operand that is labelled fp32, bf16 or
// fp16 holds doubles.
void run_kernel_in_double(const KernelSpec& spec, std::span<const Matrix> operands,
                          const KernelContext& context);

}  // namespace trainyard
