#include "backends/cuda/kernels/launch.h"

#include "backends/cuda/kernels/cuda_error.h"
#include "core/error.h"

namespace trainyard {

void require(cudaError_t code, const char* call) {
  if (code != cudaSuccess)
    throw CudaError(fmt::format("{}: {} (CUDA error {})", call, cudaGetErrorString(code),
                                static_cast<int>(code)));
}

namespace cuda_kernels {

void expect(const CudaLaunch& launch, bool condition, const char* message) {
  check(condition, "{}: {}", kernel_info(launch.spec.kind).name, message);
}

Matrix operand_of(const CudaLaunch& launch, std::size_t index, DType dtype) {
  const std::string_view name = kernel_info(launch.spec.kind).name;
  check(index < launch.operands.size(), "{} has {} operands, needs {}", name,
        launch.operands.size(), index + 1);
  const Matrix& m = launch.operands[index];
  check(m.dtype == dtype, "operand {} of {} is of type {}, not {}", index, name,
        dtype_name(m.dtype), dtype_name(dtype));
  return m;
}

Matrix operand_of(const CudaLaunch& launch, std::size_t index, DType dtype, Extent extent) {
  const Matrix m = operand_of(launch, index, dtype);
  if (m.rows == extent.rows && m.columns == extent.columns) return m;
  check(m.rows * m.columns == extent.rows * extent.columns &&
            (m.rows == 1 || m.row_stride == m.columns),
        "operand {} of {} is [{}, {}] with rows {} apart, not [{}, {}]", index,
        kernel_info(launch.spec.kind).name, m.rows, m.columns, m.row_stride, extent.rows,
        extent.columns);
  return {m.data, extent.rows, extent.columns, extent.columns, m.dtype};
}

}  // namespace cuda_kernels
}  // namespace trainyard
