#include <algorithm>

#include "backends/cuda/kernels/bodies.h"
#include "backends/cuda/kernels/gemm_plans.h"

namespace trainyard::cuda_kernels {
namespace {

struct GemmShape {
  std::int64_t m, n, k;
  bool biased, adds, transposed;
};

GemmShape gemm_shape(const KernelSpec& spec) {
  return {spec.shape[0],
          spec.shape[1],
          spec.shape[2],
          (spec.flag & kGemmBias) != 0,
          (spec.flag & kGemmAdds) != 0,
          (spec.flag & kGemmTransposed) != 0};
}

// A weight [in, out]; its operand is [out, in] if the transposed flag is set.
Matrix weight_of(const CudaLaunch& launch, std::size_t index, DType dtype, Extent in_out) {
  if (gemm_shape(launch.spec).transposed) std::swap(in_out.rows, in_out.columns);
  return operand_of(launch, index, dtype, in_out);
}

// Element (row, column) of a matrix.
void* element(const Matrix& m, std::int64_t row, std::int64_t column) {
  return static_cast<std::byte*>(m.data) + (row * m.row_stride + column) * size_of(m.dtype);
}

// The library's vector of biases is as long as the result is wide; columns beyond a shorter one are
// a product of their own.
void run_biased(const CudaLaunch& launch, GemmCall call, const GemmPointers& p, const Matrix& b,
                const Matrix& bias) {
  expect(launch, bias.columns <= call.n && !call.adds, "the bias does not fit the product");
  GemmPlans& plans = launch.state.gemm();
  const std::int64_t all = call.n;
  call.n = bias.columns;
  call.biased = true;
  plans.run(call, p, launch.stream);
  if (call.n == all) return;
  const std::int64_t first = std::exchange(call.n, all - call.n);
  call.biased = false;
  GemmPointers rest = p;
  rest.b = call.b_transposed ? element(b, first, 0) : element(b, 0, first);
  rest.y = static_cast<std::byte*>(p.y) + first * size_of(call.out);
  plans.run(call, rest, launch.stream);
}

}  // namespace

void gemm_forward(const CudaLaunch& launch) {
  const GemmShape s = gemm_shape(launch.spec);
  const DType dtype = launch.spec.dtype;
  const Matrix x = operand_of(launch, 0, dtype, {s.m, s.k});
  const Matrix w = weight_of(launch, 1, dtype, {s.k, s.n});
  const Matrix y = operand_of(launch, s.biased ? 3 : 2, dtype, {s.m, s.n});
  const GemmCall call{.in = dtype,
                      .out = dtype,
                      .m = s.m,
                      .n = s.n,
                      .k = s.k,
                      .b_transposed = s.transposed,
                      .adds = s.adds,
                      .a_stride = x.row_stride,
                      .b_stride = w.row_stride,
                      .y_stride = y.row_stride};
  if (!s.biased) return launch.state.gemm().run(call, {x.data, w.data, y.data}, launch.stream);
  const Matrix bias = operand_of(launch, 2, dtype);
  run_biased(launch, call, {x.data, w.data, y.data, bias.data}, w, bias);
}

void gemm_input_grad(const CudaLaunch& launch) {
  const GemmShape s = gemm_shape(launch.spec);
  const DType dtype = launch.spec.dtype;
  const Matrix dy = operand_of(launch, 0, dtype, {s.m, s.k});
  const Matrix w = weight_of(launch, 1, dtype, {s.n, s.k});
  const Matrix dx = operand_of(launch, 2, dtype, {s.m, s.n});
  const GemmCall call{.in = dtype,
                      .out = dtype,
                      .m = s.m,
                      .n = s.n,
                      .k = s.k,
                      .b_transposed = !s.transposed,
                      .adds = s.adds,
                      .a_stride = dy.row_stride,
                      .b_stride = w.row_stride,
                      .y_stride = dx.row_stride};
  launch.state.gemm().run(call, {dy.data, w.data, dx.data}, launch.stream);
}

void gemm_weight_grad(const CudaLaunch& launch) {
  const GemmShape s = gemm_shape(launch.spec);
  const DType dtype = launch.spec.dtype;
  const Matrix x = operand_of(launch, 0, dtype, {s.k, s.m});
  const Matrix dy = operand_of(launch, 1, dtype, {s.k, s.n});
  const Matrix dw = weight_of(launch, 2, DType::fp32, {s.m, s.n});
  const Matrix &a = s.transposed ? dy : x, &b = s.transposed ? x : dy;
  const GemmCall call{.in = dtype,
                      .out = DType::fp32,
                      .m = dw.rows,
                      .n = dw.columns,
                      .k = s.k,
                      .a_transposed = true,
                      .adds = true,
                      .a_stride = a.row_stride,
                      .b_stride = b.row_stride,
                      .y_stride = dw.row_stride};
  launch.state.gemm().run(call, {a.data, b.data, dw.data}, launch.stream);
  if (!s.biased) return;
  const Matrix dbias = operand_of(launch, 3, DType::fp32);
  expect(launch, dbias.rows == 1 && dbias.columns <= s.n, "the bias gradient does not fit");
  Matrix summed = dy;
  summed.columns = dbias.columns;
  add_column_sums(launch, summed, static_cast<float*>(dbias.data));
}

}  // namespace trainyard::cuda_kernels
