#include "tests/backends/cpu/kernels/harness.h"

#include <bit>
#include <cmath>
#include <cstring>

#include "core/random.h"

namespace trainyard::testing {
namespace {

using Bytes = std::vector<std::byte>;

template <class T>
void put(Bytes& to, std::size_t i, T value) {
  std::memcpy(to.data() + i * sizeof(T), &value, sizeof(T));
}

template <class T>
T get(const Bytes& from, std::size_t i) {
  T value;
  std::memcpy(&value, from.data() + i * sizeof(T), sizeof(T));
  return value;
}

std::uint16_t bf16_bits(double value) {
  const auto bits = std::bit_cast<std::uint32_t>(static_cast<float>(value));
  return static_cast<std::uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}
double from_bf16(std::uint16_t bits) { return std::bit_cast<float>(std::uint32_t{bits} << 16); }

}  // namespace

Bytes stored(const Buffer& b, DType dtype, bool in_double) {
  const bool is_double = in_double && dtype != DType::int32 && dtype != DType::uint8;
  Bytes to(b.values.size() * (is_double ? 8 : static_cast<std::size_t>(size_of(dtype))));
  for (std::size_t i = 0; i < b.values.size(); ++i) {
    const double v = b.values[i];
    if (is_double)
      put(to, i, v);
    else if (dtype == DType::fp32)
      put(to, i, static_cast<float>(v));
    else if (dtype == DType::bf16)
      put(to, i, bf16_bits(v));
    else if (dtype == DType::fp16)
      put(to, i, static_cast<_Float16>(v));
    else if (dtype == DType::int32)
      put(to, i, static_cast<std::int32_t>(v));
    else
      put(to, i, static_cast<std::uint8_t>(v));
  }
  return to;
}

void fetch(Buffer& b, const Bytes& from, DType dtype, bool in_double) {
  for (std::size_t i = 0; i < b.values.size(); ++i) {
    if (dtype == DType::int32)
      b.values[i] = get<std::int32_t>(from, i);
    else if (dtype == DType::uint8)
      b.values[i] = get<std::uint8_t>(from, i);
    else if (in_double)
      b.values[i] = get<double>(from, i);
    else if (dtype == DType::fp32)
      b.values[i] = get<float>(from, i);
    else if (dtype == DType::bf16)
      b.values[i] = from_bf16(get<std::uint16_t>(from, i));
    else
      b.values[i] = static_cast<double>(get<_Float16>(from, i));
  }
}

namespace {

struct Call {
  const KernelSpec& spec;
  const std::vector<Buffer*>& operands;
  const KernelContext& context;
  bool in_double;
  Workers* workers = nullptr;
};

void run_as(const Call& call, const std::vector<DType>& dtypes) {
  std::vector<Bytes> memory;
  std::vector<Matrix> matrices;
  for (std::size_t i = 0; i < call.operands.size(); ++i) {
    const Buffer& b = *call.operands[i];
    memory.push_back(stored(b, dtypes[i], call.in_double));
    matrices.push_back({memory.back().data(), b.rows, b.columns, b.stride, dtypes[i]});
  }
  if (call.in_double)
    run_kernel_in_double(call.spec, matrices, call.context);
  else
    run_kernel(call.spec, matrices, call.context, call.workers);
  for (std::size_t i = 0; i < call.operands.size(); ++i)
    fetch(*call.operands[i], memory[i], dtypes[i], call.in_double);
}

}  // namespace

// Gaps hold numbers that spoil a result they get into.
Buffer::Buffer(std::int64_t rows, std::int64_t columns, DType dtype, std::int64_t gap)
    : values(static_cast<std::size_t>(rows * (columns + gap)), dtype == DType::fp32 ? 1e4 : 0.0),
      rows(rows),
      columns(columns),
      stride(columns + gap),
      dtype(dtype) {}

Buffer::Buffer(std::int64_t rows, std::int64_t columns, std::vector<double> values)
    : values(std::move(values)),
      rows(rows),
      columns(columns),
      stride(columns),
      dtype(DType::fp32) {}

Buffer normal(std::string_view name, std::int64_t rows, std::int64_t columns, std::int64_t gap) {
  Buffer b(rows, columns, DType::fp32, gap);
  const PhiloxKey key = random_key(1, name);
  for (std::int64_t i = 0; i < rows; ++i)
    for (std::int64_t j = 0; j < columns; ++j) b.at(i, j) = random_normal(key, i * columns + j);
  return b;
}

Buffer zeros(std::int64_t rows, std::int64_t columns, std::int64_t gap) {
  Buffer b(rows, columns, DType::fp32, gap);
  for (std::int64_t i = 0; i < rows; ++i)
    for (std::int64_t j = 0; j < columns; ++j) b.at(i, j) = 0;
  return b;
}

Buffer bytes(std::int64_t rows, std::int64_t columns) { return {rows, columns, DType::uint8}; }

Buffer ids(std::int64_t rows, std::int64_t columns, std::vector<double> values) {
  Buffer b(rows, columns, std::move(values));
  b.dtype = DType::int32;
  return b;
}

void run(const KernelSpec& spec, const std::vector<Buffer*>& operands,
         const KernelContext& context) {
  std::vector<DType> dtypes;
  for (const Buffer* b : operands) dtypes.push_back(b->dtype);
  run_as({spec, operands, context, true}, dtypes);
}

void run_stored(const KernelSpec& spec, const std::vector<Buffer*>& operands,
                const KernelContext& context, const std::vector<std::size_t>& wide,
                Workers* workers) {
  std::vector<DType> dtypes;
  for (const Buffer* b : operands)
    dtypes.push_back(b->dtype == DType::fp32 ? spec.dtype : b->dtype);
  for (const std::size_t i : wide) dtypes[i] = DType::fp32;
  run_as({spec, operands, context, false, workers}, dtypes);
}

KernelSpec spec_of(KernelKind kind, std::array<std::int64_t, 6> shape, std::uint8_t flag,
                   double parameter) {
  KernelSpec spec;
  spec.kind = kind;
  spec.dtype = DType::fp32;
  spec.shape = shape;
  spec.flag = flag;
  spec.parameter = parameter;
  return spec;
}

double dot(const Buffer& a, const Buffer& b) {
  double sum = 0;
  for (std::int64_t i = 0; i < a.rows; ++i)
    for (std::int64_t j = 0; j < a.columns; ++j) sum += a.at(i, j) * b.at(i, j);
  return sum;
}

double difference(const Buffer& a, const Buffer& b) {
  EXPECT_EQ(a.rows, b.rows);
  EXPECT_EQ(a.columns, b.columns);
  double largest = 0;
  for (std::int64_t i = 0; i < a.rows; ++i)
    for (std::int64_t j = 0; j < a.columns; ++j) {
      const double d = std::abs(a.at(i, j) - b.at(i, j));
      largest = d <= largest ? largest : d;  // keeps NaN
    }
  return largest;
}

void expect_gradient(const std::function<double()>& loss, Buffer& x, const Buffer& gradient) {
  constexpr double kStep = 1e-5;
  const std::int64_t size = x.rows * x.columns;
  ASSERT_EQ(size, gradient.rows * gradient.columns);
  const std::int64_t stride = size <= 64 ? 1 : size / 64 | 1;
  for (std::int64_t n = 0; n < size; n += stride) {
    double& element = x.at(n / x.columns, n % x.columns);
    const double before = element;
    element = before + kStep;
    const double above = loss();
    element = before - kStep;
    const double below = loss();
    element = before;
    const double expected = (above - below) / (2 * kStep);
    EXPECT_NEAR(gradient.at(n / gradient.columns, n % gradient.columns), expected,
                1e-7 * (1 + std::abs(expected)))
        << "element " << n / x.columns << ", " << n % x.columns;
  }
}

double rounded(double value, DType dtype) {
  if (dtype == DType::bf16) return from_bf16(bf16_bits(value));
  if (dtype == DType::fp16) return static_cast<double>(static_cast<_Float16>(value));
  return static_cast<float>(value);
}

}  // namespace trainyard::testing
