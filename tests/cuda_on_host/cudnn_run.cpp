#include "tests/cuda_on_host/cudnn_run.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cmath>
#include <limits>

namespace trainyard::cuda_on_host {
namespace {

using Index = std::array<std::int64_t, 4>;
using Values = std::vector<float>;  // row-major, whatever the tensor's strides

std::size_t at(const Index& dims, const Index& i) {
  return static_cast<std::size_t>(((i[0] * dims[1] + i[1]) * dims[2] + i[2]) * dims[3] + i[3]);
}

// f(index) for each element, in row-major order.
template <class F>
void each(const Index& dims, F f) {
  for (std::int64_t b = 0; b < dims[0]; ++b)
    for (std::int64_t h = 0; h < dims[1]; ++h)
      for (std::int64_t i = 0; i < dims[2]; ++i)
        for (std::int64_t j = 0; j < dims[3]; ++j) f(Index{b, h, i, j});
}

std::int64_t place(const TensorOf& t, const Index& i) {
  return i[0] * t.strides[0] + i[1] * t.strides[1] + i[2] * t.strides[2] + i[3] * t.strides[3];
}

float rounded(float value, cudnnDataType_t type) {
  if (type == CUDNN_DATA_BFLOAT16) return __bfloat162float(__float2bfloat16_rn(value));
  if (type == CUDNN_DATA_HALF) return __half2float(__float2half_rn(value));
  return value;
}

Values load(const TensorOf& t, const void* from) {
  Values out;
  out.reserve(static_cast<std::size_t>(t.elements()));
  each(t.dims, [&](const Index& i) {
    const std::int64_t p = place(t, i);
    out.push_back(t.type == CUDNN_DATA_FLOAT ? static_cast<const float*>(from)[p]
                  : t.type == CUDNN_DATA_HALF
                      ? __half2float(static_cast<const __half*>(from)[p])
                      : __bfloat162float(static_cast<const __nv_bfloat16*>(from)[p]));
  });
  return out;
}

void store(const TensorOf& t, const Values& values, void* to) {
  std::size_t next = 0;
  each(t.dims, [&](const Index& i) {
    const std::int64_t p = place(t, i);
    const float value = values[next++];
    if (t.type == CUDNN_DATA_FLOAT)
      static_cast<float*>(to)[p] = value;
    else if (t.type == CUDNN_DATA_HALF)
      static_cast<__half*>(to)[p] = __float2half_rn(value);
    else
      static_cast<__nv_bfloat16*>(to)[p] = __float2bfloat16_rn(value);
  });
}

// The index of an operand whose dims of one are read again and again, and whose batches and heads
// are shared by groups of consecutive ones.
Index shared(const Index& i, const Index& all, const Index& dims, bool only_batches) {
  Index to = i;
  for (std::size_t k = 0; k < (only_batches ? 2U : 4U); ++k)
    to[k] = dims[k] == 1 ? 0 : i[k] / (all[k] / dims[k]);
  return to;
}

Values multiply(const OperationOf& op, const Values& a, const Values& b) {
  const TensorOf &ta = op.from[0], &tb = op.from[1], &tc = op.to;
  Values out(static_cast<std::size_t>(tc.elements()));
  for (std::int64_t n = 0; n < tc.dims[0]; ++n)
    for (std::int64_t h = 0; h < tc.dims[1]; ++h) {
      const Index batch{n, h, 0, 0};
      const float* const left = a.data() + at(ta.dims, shared(batch, tc.dims, ta.dims, true));
      const float* const right = b.data() + at(tb.dims, shared(batch, tc.dims, tb.dims, true));
      float* const to = out.data() + at(tc.dims, batch);
      const std::int64_t columns = tc.dims[3], depth = ta.dims[3];
      for (std::int64_t i = 0; i < tc.dims[2]; ++i)
        for (std::int64_t k = 0; k < depth; ++k) {
          const float factor = left[i * depth + k];
          for (std::int64_t j = 0; j < columns; ++j)
            to[i * columns + j] += factor * right[k * columns + j];
        }
    }
  return out;
}

float apply(cudnnPointwiseMode_t mode, float x, float b, float t) {
  switch (mode) {
    case CUDNN_POINTWISE_ADD:
      return x + b;
    case CUDNN_POINTWISE_MUL:
      return x * b;
    case CUDNN_POINTWISE_DIV:
      return x / b;
    case CUDNN_POINTWISE_SUB:
      return x - b;
    case CUDNN_POINTWISE_EXP:
      return std::exp(x);
    case CUDNN_POINTWISE_LOG:
      return std::log(x);
    case CUDNN_POINTWISE_CMP_GT:
      return x > b ? 1 : 0;
    case CUDNN_POINTWISE_CMP_GE:
      return x >= b ? 1 : 0;
    case CUDNN_POINTWISE_BINARY_SELECT:
      return t != 0 ? x : b;
    default:
      return x;
  }
}

Values pointwise(const Descriptor& d, const OperationOf& op,
                 const std::vector<const Values*>& from) {
  const Descriptor& what = d.link(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR);
  const auto mode = what.one<cudnnPointwiseMode_t>(CUDNN_ATTR_POINTWISE_MODE);
  Values out;
  out.reserve(static_cast<std::size_t>(op.to.elements()));
  if (mode == CUDNN_POINTWISE_GEN_INDEX) {
    const auto axis = static_cast<std::size_t>(what.one<std::int64_t>(CUDNN_ATTR_POINTWISE_AXIS));
    each(op.to.dims, [&](const Index& i) { out.push_back(static_cast<float>(i.at(axis))); });
    return out;
  }
  each(op.to.dims, [&](const Index& i) {
    float in[3] = {};
    for (std::size_t k = 0; k < from.size(); ++k)
      in[k] = (*from[k])[at(op.from[k].dims, shared(i, op.to.dims, op.from[k].dims, false))];
    out.push_back(apply(mode, in[0], in[1], in[2]));
  });
  return out;
}

Values reduce(const Descriptor& d, const OperationOf& op, const Values& from) {
  const bool most =
      d.link(CUDNN_ATTR_OPERATION_REDUCTION_DESC)
          .one<cudnnReduceTensorOp_t>(CUDNN_ATTR_REDUCTION_OPERATOR) == CUDNN_REDUCE_TENSOR_MAX;
  Values out(static_cast<std::size_t>(op.to.elements()),
             most ? -std::numeric_limits<float>::infinity() : 0.0F);
  std::size_t next = 0;
  each(op.from[0].dims, [&](const Index& i) {
    float& to = out[at(op.to.dims, shared(i, op.from[0].dims, op.to.dims, false))];
    const float value = from[next++];
    to = most ? std::max(to, value) : to + value;
  });
  return out;
}

// The elements stay where they are; only their indices change.
Values reshape(const OperationOf& op, const Values& from) {
  Values memory(static_cast<std::size_t>(std::max(op.from[0].last(), op.to.last()) + 1),
                std::numeric_limits<float>::quiet_NaN());
  std::size_t next = 0;
  each(op.from[0].dims, [&](const Index& i) {
    memory[static_cast<std::size_t>(place(op.from[0], i))] = from[next++];
  });
  Values out;
  each(op.to.dims,
       [&](const Index& i) { out.push_back(memory[static_cast<std::size_t>(place(op.to, i))]); });
  return out;
}

}  // namespace

void run_graph(const Descriptor& graph, const Bindings& bindings) {
  std::map<std::int64_t, Values> known;
  const auto values_of = [&](const TensorOf& t) -> const Values* {
    const auto [entry, is_new] = known.try_emplace(t.id);
    if (is_new)
      entry->second =
          t.by_value ? Values{bindings.scalars.at(t.id)} : load(t, bindings.pointers.at(t.id));
    return &entry->second;
  };
  for (const auto& each_op : graph.links.at(CUDNN_ATTR_OPERATIONGRAPH_OPS)) {
    const Descriptor& d = *each_op;
    const OperationOf op = operation_of(d);
    std::vector<const Values*> from;
    for (const TensorOf& t : op.from) from.push_back(values_of(t));
    Values out = d.type == CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR
                     ? multiply(op, *from[0], *from[1])
                 : d.type == CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR ? reduce(d, op, *from[0])
                 : d.type == CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR   ? reshape(op, *from[0])
                                                                          : pointwise(d, op, from);
    for (float& value : out) value = rounded(value, op.to.type);
    if (!op.to.is_virtual) store(op.to, out, bindings.pointers.at(op.to.id));
    known[op.to.id] = std::move(out);
  }
}

}  // namespace trainyard::cuda_on_host
