#pragma once
#include <Eigen/Core>
#include <algorithm>
#include <cstdint>
#include <span>
#include <type_traits>

#include "backends/cpu/kernels/kernels.h"
#include "core/error.h"

namespace trainyard {

// One call of run_kernel(), as bodies see it.
struct Launch {
  const KernelSpec& spec;
  std::span<const Matrix> operands;
  const KernelContext& context;
  Workers* workers = nullptr;
  bool in_double = false;
};

// Arithmetic and accumulation type of a storage type.
template <class T>
using Compute = std::conditional_t<std::is_same_v<std::remove_const_t<T>, double>, double, float>;

template <class T>
struct View {
  T* data = nullptr;
  std::int64_t rows = 0, columns = 0, stride = 0;
  T* row(std::int64_t i) const { return data + i * stride; }
  T& at(std::int64_t i, std::int64_t j) const { return data[i * stride + j]; }
};

// Whether `dtype` is how elements of type T are labelled.
template <class T>
constexpr bool labels(DType dtype, bool in_double) {
  using U = std::remove_const_t<T>;
  if constexpr (std::is_same_v<U, std::int32_t>) return dtype == DType::int32;
  if constexpr (std::is_same_v<U, std::uint8_t>) return dtype == DType::uint8;
  if constexpr (std::is_same_v<U, Eigen::bfloat16>) return dtype == DType::bf16;
  if constexpr (std::is_same_v<U, Eigen::half>) return dtype == DType::fp16;
  if constexpr (std::is_same_v<U, float>) return dtype == DType::fp32 && !in_double;
  if constexpr (std::is_same_v<U, double>) return in_double;
  return false;
}

// Operand `index` as it is.
template <class T>
View<T> operand(const Launch& launch, std::size_t index) {
  const std::string_view name = kernel_info(launch.spec.kind).name;
  check(index < launch.operands.size(), "{} has {} operands, needs {}", name,
        launch.operands.size(), index + 1);
  const Matrix& m = launch.operands[index];
  check(labels<T>(m.dtype, launch.in_double), "operand {} of {} is of type {}", index, name,
        dtype_name(m.dtype));
  return {static_cast<T*>(m.data), m.rows, m.columns, m.row_stride};
}

// Operand `index` as [rows, columns]; a contiguous one may have another shape of that size.
template <class T>
View<T> operand(const Launch& launch, std::size_t index, std::int64_t rows, std::int64_t columns) {
  View<T> view = operand<T>(launch, index);
  if (view.rows == rows && view.columns == columns) return view;
  check(
      view.rows * view.columns == rows * columns && (view.rows == 1 || view.stride == view.columns),
      "operand {} of {} is [{}, {}] with rows {} apart, not [{}, {}]", index,
      kernel_info(launch.spec.kind).name, view.rows, view.columns, view.stride, rows, columns);
  return {view.data, rows, columns, columns};
}

inline bool has_operand(const Launch& launch, std::size_t index) {
  return index < launch.operands.size();
}

// Calls f(T{}) with the storage type of elements labelled `dtype`.
template <class F>
void with_storage(const Launch& launch, DType dtype, F f) {
  if (launch.in_double) return f(double{});
  switch (dtype) {
    case DType::fp32:
      return f(float{});
    case DType::bf16:
      return f(Eigen::bfloat16{});
    case DType::fp16:
      return f(Eigen::half{});
    default:
      check(false, "{} cannot compute in {}", kernel_info(launch.spec.kind).name,
            dtype_name(dtype));
  }
}

// Calls f(first, last) for consecutive ranges that cover [0, n), at most `grain` long. The ranges
// do not depend on the number of workers, so results that are summed per range do not either.
template <class F>
void for_ranges(const Launch& launch, std::int64_t n, std::int64_t grain, F f) {
  const std::int64_t ranges = (n + grain - 1) / grain;
  const auto range = [&](std::size_t at) {
    const auto i = static_cast<std::int64_t>(at);
    f(i * grain, std::min(n, (i + 1) * grain));
  };
  if (launch.workers == nullptr || ranges <= 1)
    for (std::int64_t i = 0; i < ranges; ++i) range(static_cast<std::size_t>(i));
  else
    launch.workers->each(static_cast<std::size_t>(ranges), range);
}

// Rows of `columns` elements that make a range worth a thread's while.
inline std::int64_t row_grain(std::int64_t columns) {
  constexpr std::int64_t kElements = 1 << 14;
  return std::max<std::int64_t>(1, kElements / std::max<std::int64_t>(1, columns));
}

}  // namespace trainyard
