#pragma once
#include <gtest/gtest.h>

#include <cstddef>
#include <functional>
#include <string_view>
#include <vector>

#include "backends/cpu/kernels/kernels.h"

namespace trainyard::testing {

// An operand of a kernel under test: a matrix of doubles, and how the kernel stores it.
struct Buffer {
  // Rows lie `gap` elements further apart than their columns need.
  Buffer(std::int64_t rows, std::int64_t columns, DType dtype = DType::fp32, std::int64_t gap = 0);
  Buffer(std::int64_t rows, std::int64_t columns, std::vector<double> values);
  double& at(std::int64_t i, std::int64_t j) { return values[i * stride + j]; }
  double at(std::int64_t i, std::int64_t j) const { return values[i * stride + j]; }

  std::vector<double> values;
  std::int64_t rows, columns, stride;
  DType dtype;
};

// A buffer of standard normal numbers of its own for each name.
Buffer normal(std::string_view name, std::int64_t rows, std::int64_t columns, std::int64_t gap = 0);
Buffer zeros(std::int64_t rows, std::int64_t columns, std::int64_t gap = 0);
Buffer bytes(std::int64_t rows, std::int64_t columns);  // a mask
Buffer ids(std::int64_t rows, std::int64_t columns, std::vector<double> values);

// Runs a kernel in double precision on the buffers.
void run(const KernelSpec& spec, const std::vector<Buffer*>& operands,
         const KernelContext& context = {});

// Runs a kernel in spec.dtype: fp32 operands that `wide` does not name are stored in spec.dtype.
void run_stored(const KernelSpec& spec, const std::vector<Buffer*>& operands,
                const KernelContext& context = {}, const std::vector<std::size_t>& wide = {},
                Workers* workers = nullptr);

// A buffer's elements as numbers of a type, and back.
std::vector<std::byte> stored(const Buffer& buffer, DType dtype, bool in_double = false);
void fetch(Buffer& buffer, const std::vector<std::byte>& from, DType dtype, bool in_double = false);

KernelSpec spec_of(KernelKind kind, std::array<std::int64_t, 6> shape, std::uint8_t flag = 0,
                   double parameter = 0);

double dot(const Buffer& a, const Buffer& b);
// Largest difference of two buffers of one shape.
double difference(const Buffer& a, const Buffer& b);

// Expects `gradient` to be the derivative of loss() with respect to x, by central differences with
// step 1e-5 at up to 64 elements. Their error is about step^2 and 1e-16 |loss| / step, both well
// below the tolerance 1e-7 (1 + |derivative|) for losses below a hundred.
void expect_gradient(const std::function<double()>& loss, Buffer& x, const Buffer& gradient);

double rounded(double value, DType dtype);  // to the nearest number of the type, ties to even

}  // namespace trainyard::testing
