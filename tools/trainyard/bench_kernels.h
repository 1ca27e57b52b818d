#pragma once
#include <string>
#include <vector>

#include "core/program/kernel.h"
#include "tools/trainyard/csv_read.h"

namespace trainyard {

enum class KernelFamily : std::uint8_t { gemm, attention, memory };

// The launches a row of a kernel table times, one after another.
struct BenchKernels {
  KernelFamily family{};
  std::vector<KernelSpec> kernels;
  std::string skip;            // not empty: nothing here computes what the row measures
  std::int64_t least_dim = 0;  // of a GEMM: the smallest of m, n, k
};

// Reads the columns kernel, dtype, direction, m, n, k, b, h, hkv, s, d, causal, window, impl.
BenchKernels bench_kernels(const CsvRow& row);

}  // namespace trainyard
