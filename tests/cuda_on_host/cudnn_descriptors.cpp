#include "tests/cuda_on_host/cudnn_descriptors.h"

#include <algorithm>
#include <set>

namespace trainyard::cuda_on_host {
namespace {

// What may and, unless `optional`, must be set before a descriptor is finalized: cuDNN's backend
// API reference, "Backend Descriptor Types".
struct Rule {
  cudnnBackendDescriptorType_t descriptor;
  Attribute name;
  cudnnBackendAttributeType_t type;
  std::int64_t least = 1, most = 1;
  bool optional = false;
  cudnnBackendDescriptorType_t links_to = CUDNN_BACKEND_TENSOR_DESCRIPTOR;
};

constexpr std::int64_t kMany = 1 << 20;
constexpr Rule kRules[] = {
    {CUDNN_BACKEND_POINTWISE_DESCRIPTOR, CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE},
    {CUDNN_BACKEND_POINTWISE_DESCRIPTOR, CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE},
    {CUDNN_BACKEND_POINTWISE_DESCRIPTOR, CUDNN_ATTR_POINTWISE_AXIS, CUDNN_TYPE_INT64, 1, 1, true},
    {CUDNN_BACKEND_MATMUL_DESCRIPTOR, CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_TYPE_DATA_TYPE},
    {CUDNN_BACKEND_REDUCTION_DESCRIPTOR, CUDNN_ATTR_REDUCTION_OPERATOR,
     CUDNN_TYPE_REDUCTION_OPERATOR_TYPE},
    {CUDNN_BACKEND_REDUCTION_DESCRIPTOR, CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE},
    {CUDNN_BACKEND_TENSOR_DESCRIPTOR, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64},
    {CUDNN_BACKEND_TENSOR_DESCRIPTOR, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE},
    {CUDNN_BACKEND_TENSOR_DESCRIPTOR, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64},
    {CUDNN_BACKEND_TENSOR_DESCRIPTOR, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 4, 4},
    {CUDNN_BACKEND_TENSOR_DESCRIPTOR, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, 4, 4},
    {CUDNN_BACKEND_TENSOR_DESCRIPTOR, CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, 1, 1, true},
    {CUDNN_BACKEND_TENSOR_DESCRIPTOR, CUDNN_ATTR_TENSOR_IS_BY_VALUE, CUDNN_TYPE_BOOLEAN, 1, 1,
     true},
    {CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR,
     CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, 1, false, CUDNN_BACKEND_POINTWISE_DESCRIPTOR},
    {CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR, CUDNN_ATTR_OPERATION_POINTWISE_XDESC,
     CUDNN_TYPE_BACKEND_DESCRIPTOR},
    {CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR, CUDNN_ATTR_OPERATION_POINTWISE_BDESC,
     CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, 1, true},
    {CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR, CUDNN_ATTR_OPERATION_POINTWISE_TDESC,
     CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, 1, true},
    {CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR, CUDNN_ATTR_OPERATION_POINTWISE_YDESC,
     CUDNN_TYPE_BACKEND_DESCRIPTOR},
    {CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR, CUDNN_ATTR_OPERATION_MATMUL_ADESC,
     CUDNN_TYPE_BACKEND_DESCRIPTOR},
    {CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR, CUDNN_ATTR_OPERATION_MATMUL_BDESC,
     CUDNN_TYPE_BACKEND_DESCRIPTOR},
    {CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR, CUDNN_ATTR_OPERATION_MATMUL_CDESC,
     CUDNN_TYPE_BACKEND_DESCRIPTOR},
    {CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR, CUDNN_ATTR_OPERATION_MATMUL_DESC,
     CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, 1, false, CUDNN_BACKEND_MATMUL_DESCRIPTOR},
    {CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR, CUDNN_ATTR_OPERATION_REDUCTION_XDESC,
     CUDNN_TYPE_BACKEND_DESCRIPTOR},
    {CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR, CUDNN_ATTR_OPERATION_REDUCTION_YDESC,
     CUDNN_TYPE_BACKEND_DESCRIPTOR},
    {CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR, CUDNN_ATTR_OPERATION_REDUCTION_DESC,
     CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, 1, false, CUDNN_BACKEND_REDUCTION_DESCRIPTOR},
    {CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR, CUDNN_ATTR_OPERATION_RESHAPE_XDESC,
     CUDNN_TYPE_BACKEND_DESCRIPTOR},
    {CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR, CUDNN_ATTR_OPERATION_RESHAPE_YDESC,
     CUDNN_TYPE_BACKEND_DESCRIPTOR},
    {CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR, CUDNN_ATTR_OPERATIONGRAPH_OPS,
     CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, kMany},
    {CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR, CUDNN_ATTR_DEVICEPROP_DEVICE_ID, CUDNN_TYPE_INT32},
    {CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH,
     CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, 1, false, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR},
    {CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE},
    {CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR, CUDNN_ATTR_ENGINEHEUR_DEVICEPROP,
     CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, 1, false, CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR},
    {CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG,
     CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, 1, false, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR},
    {CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP,
     CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, 1, false, CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR},
    {CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, 1,
     kMany},
    {CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS,
     CUDNN_TYPE_VOID_PTR, 1, kMany},
    {CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR},
};

std::size_t size_of(cudnnBackendAttributeType_t type) {
  switch (type) {
    case CUDNN_TYPE_INT64:
    case CUDNN_TYPE_VOID_PTR:
      return 8;
    case CUDNN_TYPE_BOOLEAN:
      return sizeof(bool);
    default:  // enumerations and int32
      return 4;
  }
}

bool is_operation(const Descriptor& d) {
  return d.type == CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR ||
         d.type == CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR ||
         d.type == CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR ||
         d.type == CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR;
}

void check_tensor(const TensorOf& t) {
  for (std::size_t i = 0; i < 4; ++i)
    expect_cudnn(t.dims[i] > 0 && t.strides[i] > 0, "a dim or stride of a tensor is not positive");
  expect_cudnn(!t.is_virtual || !t.by_value, "a virtual tensor has no value of its own");
  expect_cudnn(t.alignment > 0 && (t.alignment & (t.alignment - 1)) == 0, "an odd alignment");
}

void check_matmul(const OperationOf& op) {
  const auto &a = op.from[0].dims, &b = op.from[1].dims, &c = op.to.dims;
  expect_cudnn(a[2] == c[2] && b[3] == c[3] && a[3] == b[2], "factors that do not fit");
  for (std::size_t i = 0; i < 2; ++i)
    expect_cudnn(c[i] % a[i] == 0 && c[i] % b[i] == 0, "batches that do not fit");
}

void check_pointwise(const Descriptor& d, const OperationOf& op) {
  const Descriptor& what = d.link(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR);
  const auto mode = what.one<cudnnPointwiseMode_t>(CUDNN_ATTR_POINTWISE_MODE);
  const bool unary = mode == CUDNN_POINTWISE_EXP || mode == CUDNN_POINTWISE_LOG ||
                     mode == CUDNN_POINTWISE_IDENTITY || mode == CUDNN_POINTWISE_GEN_INDEX;
  const std::size_t inputs = unary ? 1 : mode == CUDNN_POINTWISE_BINARY_SELECT ? 3 : 2;
  expect_cudnn(op.from.size() == inputs, "inputs that a pointwise mode does not have");
  expect_cudnn((mode == CUDNN_POINTWISE_GEN_INDEX) == what.has(CUDNN_ATTR_POINTWISE_AXIS),
               "an axis is for indices");
  for (const TensorOf& t : op.from)
    for (std::size_t i = 0; i < 4; ++i)
      expect_cudnn(t.dims[i] == 1 || t.dims[i] == op.to.dims[i], "dims that do not broadcast");
  if (mode == CUDNN_POINTWISE_BINARY_SELECT)
    expect_cudnn(op.from[2].type == CUDNN_DATA_BOOLEAN, "a condition that is no truth value");
}

// Each virtual tensor is written once, before it is read, and read; ids are unique.
void check_graph(const Descriptor& graph) {
  std::set<std::int64_t> written, read;
  std::map<std::int64_t, TensorOf> known;
  const auto meet = [&](const TensorOf& t) {
    const auto [at, is_new] = known.emplace(t.id, t);
    expect_cudnn(is_new || (at->second.dims == t.dims && at->second.strides == t.strides),
                 "two tensors of one id");
  };
  for (const auto& each : graph.links.at(CUDNN_ATTR_OPERATIONGRAPH_OPS)) {
    const OperationOf op = operation_of(*each);
    for (const TensorOf& t : op.from) {
      meet(t);
      expect_cudnn(!t.is_virtual || written.contains(t.id), "a virtual tensor that none writes");
      read.insert(t.id);
    }
    meet(op.to);
    expect_cudnn(!op.to.by_value && written.insert(op.to.id).second, "a tensor written twice");
  }
  for (const std::int64_t id : written)
    expect_cudnn(!known.at(id).is_virtual || read.contains(id), "a virtual tensor that none reads");
}

}  // namespace

void expect_cudnn(bool condition, const std::string& why) {
  if (!condition) throw CudnnRefusal{CUDNN_STATUS_BAD_PARAM, why};
}

std::int64_t bytes_of(cudnnDataType_t type) {
  return type == CUDNN_DATA_BOOLEAN                             ? 1
         : type == CUDNN_DATA_FLOAT || type == CUDNN_DATA_INT32 ? 4
                                                                : 2;
}

TensorOf::TensorOf(const Descriptor& from)
    : id(from.one<std::int64_t>(CUDNN_ATTR_TENSOR_UNIQUE_ID)),
      type(from.one<cudnnDataType_t>(CUDNN_ATTR_TENSOR_DATA_TYPE)),
      alignment(from.one<std::int64_t>(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT)),
      is_virtual(from.has(CUDNN_ATTR_TENSOR_IS_VIRTUAL) &&
                 from.one<bool>(CUDNN_ATTR_TENSOR_IS_VIRTUAL)),
      by_value(from.has(CUDNN_ATTR_TENSOR_IS_BY_VALUE) &&
               from.one<bool>(CUDNN_ATTR_TENSOR_IS_BY_VALUE)) {
  std::ranges::copy(from.all<std::int64_t>(CUDNN_ATTR_TENSOR_DIMENSIONS), dims.begin());
  std::ranges::copy(from.all<std::int64_t>(CUDNN_ATTR_TENSOR_STRIDES), strides.begin());
}

std::int64_t TensorOf::last() const {
  std::int64_t at = 0;
  for (std::size_t i = 0; i < 4; ++i) at += (dims[i] - 1) * strides[i];
  return at;
}

OperationOf operation_of(const Descriptor& d) {
  std::vector<Attribute> from;
  Attribute to = CUDNN_ATTR_OPERATION_POINTWISE_YDESC;
  if (d.type == CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR) {
    from = {CUDNN_ATTR_OPERATION_MATMUL_ADESC, CUDNN_ATTR_OPERATION_MATMUL_BDESC};
    to = CUDNN_ATTR_OPERATION_MATMUL_CDESC;
  } else if (d.type == CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR) {
    from = {CUDNN_ATTR_OPERATION_REDUCTION_XDESC};
    to = CUDNN_ATTR_OPERATION_REDUCTION_YDESC;
  } else if (d.type == CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR) {
    from = {CUDNN_ATTR_OPERATION_RESHAPE_XDESC};
    to = CUDNN_ATTR_OPERATION_RESHAPE_YDESC;
  } else {
    for (const Attribute name :
         {CUDNN_ATTR_OPERATION_POINTWISE_XDESC, CUDNN_ATTR_OPERATION_POINTWISE_BDESC,
          CUDNN_ATTR_OPERATION_POINTWISE_TDESC})
      if (d.has(name)) from.push_back(name);
  }
  OperationOf op{{}, TensorOf(d.link(to))};
  for (const Attribute name : from) op.from.emplace_back(d.link(name));
  return op;
}

void set_attribute(Descriptor& to, Attribute name, cudnnBackendAttributeType_t type,
                   std::int64_t count, const void* values) {
  if (to.finalized)
    throw CudnnRefusal{CUDNN_STATUS_NOT_INITIALIZED, "a finalized descriptor is set"};
  const auto rule = std::ranges::find_if(
      kRules, [&](const Rule& r) { return r.descriptor == to.type && r.name == name; });
  expect_cudnn(rule != std::end(kRules), "an attribute that the descriptor does not have");
  expect_cudnn(rule->type == type, "an attribute of another type");
  expect_cudnn(count >= rule->least && count <= rule->most, "a wrong count of values");
  expect_cudnn(values != nullptr, "no values");
  if (type != CUDNN_TYPE_BACKEND_DESCRIPTOR) {
    const auto* bytes = static_cast<const std::byte*>(values);
    to.values[name].assign(bytes, bytes + static_cast<std::size_t>(count) * size_of(type));
    return;
  }
  auto& links = to.links[name];
  links.clear();
  for (std::int64_t i = 0; i < count; ++i) {
    const auto* each = static_cast<const Handle*>(values)[i];
    expect_cudnn(each != nullptr && (*each)->finalized, "a descriptor that is not finalized");
    expect_cudnn(name == CUDNN_ATTR_OPERATIONGRAPH_OPS ? is_operation(**each)
                                                       : (*each)->type == rule->links_to,
                 "a descriptor of another type");
    links.push_back(*each);
  }
}

void finalize(Descriptor& d) {
  for (const Rule& r : kRules)
    expect_cudnn(r.descriptor != d.type || r.optional || d.has(r.name), "an attribute is missing");
  if (d.type == CUDNN_BACKEND_TENSOR_DESCRIPTOR) check_tensor(TensorOf(d));
  if (d.type == CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR) check_matmul(operation_of(d));
  if (d.type == CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR) check_pointwise(d, operation_of(d));
  if (d.type == CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR) {
    const OperationOf op = operation_of(d);
    for (std::size_t i = 0; i < 4; ++i)
      expect_cudnn(op.from[0].dims[i] % op.to.dims[i] == 0, "dims that do not reduce");
  }
  if (d.type == CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR) {
    const OperationOf op = operation_of(d);
    expect_cudnn(op.from[0].elements() == op.to.elements(), "a reshape to another size");
  }
  if (d.type == CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR) check_graph(d);
  d.finalized = true;
}

}  // namespace trainyard::cuda_on_host
