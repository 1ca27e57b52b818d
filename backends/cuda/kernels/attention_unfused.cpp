#include "backends/cuda/kernels/attention_layout.h"
#include "backends/cuda/kernels/bodies.h"
#include "backends/cuda/kernels/gemm_plans.h"
#include "backends/cuda/kernels/group_products.h"

namespace trainyard::cuda_kernels {
namespace {

// Columns of a qkv buffer, or of one like its query part, that belong to heads in order.
struct Columns {
  std::byte* data;
  std::int64_t stride, element;  // stride: elements between rows
  // Row `row`, column `column`.
  std::byte* at(std::int64_t row, std::int64_t column) const {
    return data + (row * stride + column) * element;
  }
};

Columns columns_of(const Matrix& m) {
  return {static_cast<std::byte*>(m.data), m.row_stride, size_of(m.dtype)};
}

// The layout behind an unfused product, whose spec names the products alone: the buffer tells how
// many sequences and key heads there are.
HeadLayout unfused_heads(const CudaLaunch& launch, const Matrix& qkv, std::int64_t dim) {
  const std::int64_t sequence = launch.spec.shape[1];
  expect(launch, sequence > 0 && qkv.rows % sequence == 0, "rows are no whole sequences");
  HeadLayout h{qkv.rows / sequence, 0, 0, sequence, dim, 0};
  h.heads = launch.spec.shape[0] / h.batch;
  h.kv_heads = (qkv.columns / dim - h.heads) / 2;
  expect(launch, h.kv_heads > 0 && h.heads % h.kv_heads == 0 && h.qkv_columns() == qkv.columns,
         "columns are no whole heads");
  h.group = h.heads / h.kv_heads;
  return h;
}

// Squares of all heads: [batch * heads * sequence, sequence].
Matrix squares(const CudaLaunch& launch, std::size_t index, const HeadLayout& h) {
  return operand_of(launch, index, launch.spec.dtype, {h.batch * h.heads * h.sequence, h.sequence});
}

// One product for each query head. Heads that share a key head are a batch whose step along the
// keys is nothing; without groups all heads of a sequence are one batch.
struct HeadBatches {
  const HeadLayout& h;
  template <class F>
  void each(F f) const {  // f(batch, first head, heads, its key head, step of key heads)
    const std::int64_t size = h.group == 1 ? h.heads : h.group;
    for (std::int64_t b = 0; b < h.batch; ++b)
      for (std::int64_t head = 0; head < h.heads; head += size)
        f(b, head, size, head / h.group, h.group == 1 ? h.dim : 0);
  }
};

// square = left right^T of heads: left has the columns of query heads, right those of key heads.
void square_products(const CudaLaunch& launch, const HeadLayout& h, const Columns& left,
                     const Columns& right, const Matrix& square) {
  const Columns to = columns_of(square);
  HeadBatches{h}.each([&](auto b, auto head, auto count, auto kv, auto kv_step) {
    const GemmCall call{.in = launch.spec.dtype,
                        .out = launch.spec.dtype,
                        .m = h.sequence,
                        .n = h.sequence,
                        .k = h.dim,
                        .b_transposed = true,
                        .a_stride = left.stride,
                        .b_stride = right.stride,
                        .y_stride = to.stride,
                        .batch = count,
                        .a_step = h.dim,
                        .b_step = kv_step,
                        .y_step = h.sequence * to.stride};
    launch.state.gemm().run(
        call,
        {left.at(b * h.sequence, head * h.dim), right.at(b * h.sequence, kv * h.dim),
         to.at((b * h.heads + head) * h.sequence, 0)},
        launch.stream);
  });
}

// to = square right of heads: `to` has the columns of query heads, right those of key heads.
void context_products(const CudaLaunch& launch, const HeadLayout& h, const Matrix& square,
                      const Columns& right, const Columns& to) {
  const Columns from = columns_of(square);
  HeadBatches{h}.each([&](auto b, auto head, auto count, auto kv, auto kv_step) {
    const GemmCall call{.in = launch.spec.dtype,
                        .out = launch.spec.dtype,
                        .m = h.sequence,
                        .n = h.dim,
                        .k = h.sequence,
                        .a_stride = from.stride,
                        .b_stride = right.stride,
                        .y_stride = to.stride,
                        .batch = count,
                        .a_step = h.sequence * from.stride,
                        .b_step = kv_step,
                        .y_step = h.dim};
    launch.state.gemm().run(
        call,
        {from.at((b * h.heads + head) * h.sequence, 0), right.at(b * h.sequence, kv * h.dim),
         to.at(b * h.sequence, head * h.dim)},
        launch.stream);
  });
}

// to = sum over the heads of a group of square^T left, rounded once.
void transposed_products(const CudaLaunch& launch, const HeadLayout& h, const Matrix& square,
                         const Columns& left, const Columns& to) {
  if (h.group > 1) {
    const GroupProducts g{h,         launch.spec.dtype, square.data, square.row_stride,
                          left.data, left.stride,       to.data,     to.stride};
    return group_products(launch, g);
  }
  const Columns from = columns_of(square);
  for (std::int64_t b = 0; b < h.batch; ++b) {
    const GemmCall call{.in = launch.spec.dtype,
                        .out = launch.spec.dtype,
                        .m = h.sequence,
                        .n = h.dim,
                        .k = h.sequence,
                        .a_transposed = true,
                        .a_stride = from.stride,
                        .b_stride = left.stride,
                        .y_stride = to.stride,
                        .batch = h.heads,
                        .a_step = h.sequence * from.stride,
                        .b_step = h.dim,
                        .y_step = h.dim};
    launch.state.gemm().run(call,
                            {from.at(b * h.heads * h.sequence, 0), left.at(b * h.sequence, 0),
                             to.at(b * h.sequence, 0)},
                            launch.stream);
  }
}

Columns from_column(Columns c, std::int64_t column) {
  c.data = c.at(0, column);
  return c;
}
Columns keys_of(const Columns& qkv, const HeadLayout& h) {
  return from_column(qkv, h.heads * h.dim);
}
Columns values_of(const Columns& qkv, const HeadLayout& h) {
  return from_column(qkv, (h.heads + h.kv_heads) * h.dim);
}

}  // namespace

void attention_scores(const CudaLaunch& launch) {
  const Matrix qkv = operand_of(launch, 0, launch.spec.dtype);
  const HeadLayout h = unfused_heads(launch, qkv, launch.spec.shape[3]);
  const Columns from = columns_of(qkv);
  square_products(launch, h, from, keys_of(from, h), squares(launch, 1, h));
}

void attention_scores_grad(const CudaLaunch& launch) {
  const Matrix qkv = operand_of(launch, 0, launch.spec.dtype);
  const HeadLayout h = unfused_heads(launch, qkv, launch.spec.shape[3]);
  const Matrix dscores = squares(launch, 1, h);
  const Columns from = columns_of(qkv);
  const Columns to = columns_of(operand_of(launch, 2, launch.spec.dtype, {qkv.rows, qkv.columns}));
  context_products(launch, h, dscores, keys_of(from, h), to);
  transposed_products(launch, h, dscores, from, keys_of(to, h));
}

void attention_context(const CudaLaunch& launch) {
  const Matrix qkv = operand_of(launch, 0, launch.spec.dtype);
  const HeadLayout h = unfused_heads(launch, qkv, launch.spec.shape[2]);
  const Columns to =
      columns_of(operand_of(launch, 2, launch.spec.dtype, {qkv.rows, h.query_columns()}));
  context_products(launch, h, squares(launch, 1, h), values_of(columns_of(qkv), h), to);
}

void attention_context_grad(const CudaLaunch& launch) {
  const Matrix qkv = operand_of(launch, 0, launch.spec.dtype);
  const HeadLayout h = unfused_heads(launch, qkv, launch.spec.shape[2]);
  const Matrix weights = squares(launch, 1, h);
  const Columns dout =
      columns_of(operand_of(launch, 2, launch.spec.dtype, {qkv.rows, h.query_columns()}));
  const Columns to = columns_of(operand_of(launch, 4, launch.spec.dtype, {qkv.rows, qkv.columns}));
  square_products(launch, h, dout, values_of(columns_of(qkv), h), squares(launch, 3, h));
  transposed_products(launch, h, weights, dout, values_of(to, h));
}

}  // namespace trainyard::cuda_kernels
