#include "backends/cuda/kernels/cudnn_graph.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace trainyard {

void must_cudnn(cudnnStatus_t status, const char* call) {
  if (status == CUDNN_STATUS_SUCCESS) return;
  std::array<char, 512> detail{};
  cudnnGetLastErrorString(detail.data(), detail.size());
  throw CudaError(fmt::format("{}: {} ({})", call, cudnnGetErrorString(status), detail.data()));
}

CudnnDescriptor::CudnnDescriptor(cudnnBackendDescriptorType_t type) {
  must_cudnn(cudnnBackendCreateDescriptor(type, &descriptor_), "cudnnBackendCreateDescriptor");
}

CudnnDescriptor::~CudnnDescriptor() {
  if (descriptor_ != nullptr) cudnnBackendDestroyDescriptor(descriptor_);
}

void CudnnDescriptor::set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                          std::int64_t count, const void* values) {
  must_cudnn(cudnnBackendSetAttribute(descriptor_, name, type, count, values),
             "cudnnBackendSetAttribute");
}

void CudnnDescriptor::link(cudnnBackendAttributeName_t name, const CudnnDescriptor& to) {
  set(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, to.descriptor_);
}

CudnnDescriptor cudnn_device(std::int32_t number) {
  CudnnDescriptor device(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR);
  device.set(CUDNN_ATTR_DEVICEPROP_DEVICE_ID, CUDNN_TYPE_INT32, number);
  device.finalize();
  return device;
}

CudnnDescriptor cudnn_device(const std::string& json) {
  CudnnDescriptor device(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR);
  device.set(CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR,
             static_cast<std::int64_t>(json.size()), json.data());
  device.finalize();
  return device;
}

CudnnGraph::Dims CudnnGraph::packed(const Dims& dims) {
  return {dims[1] * dims[2] * dims[3], dims[2] * dims[3], dims[3], 1};
}

CudnnGraph::Tensor CudnnGraph::add(const TensorInfo& info) {
  constexpr std::int64_t kAlignment = 16;
  CudnnDescriptor& t = tensors_.emplace_back(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  t.set(CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, info.id);
  t.set(CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, info.type);
  t.set(CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, info.dims.size(), info.dims.data());
  t.set(CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, info.strides.size(), info.strides.data());
  t.set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, kAlignment);
  t.set(CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, info.is_virtual);
  t.set(CUDNN_ATTR_TENSOR_IS_BY_VALUE, CUDNN_TYPE_BOOLEAN, info.by_value);
  t.finalize();
  return tensors_.size() - 1;
}

CudnnGraph::Tensor CudnnGraph::in_memory(std::int64_t id, cudnnDataType_t type, const Dims& dims,
                                         const Dims& strides) {
  return add({.id = id, .type = type, .dims = dims, .strides = strides});
}

CudnnGraph::Tensor CudnnGraph::scalar(std::int64_t id) {
  return add({.id = id, .dims = {1, 1, 1, 1}, .strides = {1, 1, 1, 1}, .by_value = true});
}

CudnnGraph::Tensor CudnnGraph::between(cudnnDataType_t type, const Dims& dims,
                                       const Dims& strides) {
  return add(
      {.id = next_between_++, .type = type, .dims = dims, .strides = strides, .is_virtual = true});
}

CudnnDescriptor& CudnnGraph::add(cudnnBackendDescriptorType_t type) {
  return operations_.emplace_back(type);
}

void CudnnGraph::matmul(Tensor a, Tensor b, Tensor to) {
  CudnnDescriptor& kind = kinds_.emplace_back(CUDNN_BACKEND_MATMUL_DESCRIPTOR);
  kind.set(CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, CUDNN_DATA_FLOAT);
  kind.finalize();
  CudnnDescriptor& op = add(CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR);
  op.link(CUDNN_ATTR_OPERATION_MATMUL_ADESC, tensors_[a]);
  op.link(CUDNN_ATTR_OPERATION_MATMUL_BDESC, tensors_[b]);
  op.link(CUDNN_ATTR_OPERATION_MATMUL_CDESC, tensors_[to]);
  op.link(CUDNN_ATTR_OPERATION_MATMUL_DESC, kind);
  op.finalize();
}

void CudnnGraph::pointwise(const Pointwise& what, std::initializer_list<Tensor> from, Tensor to) {
  constexpr cudnnBackendAttributeName_t kInputs[] = {CUDNN_ATTR_OPERATION_POINTWISE_XDESC,
                                                     CUDNN_ATTR_OPERATION_POINTWISE_BDESC,
                                                     CUDNN_ATTR_OPERATION_POINTWISE_TDESC};
  CudnnDescriptor& kind = kinds_.emplace_back(CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
  kind.set(CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, what.mode);
  kind.set(CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, what.arithmetic);
  if (what.axis >= 0) kind.set(CUDNN_ATTR_POINTWISE_AXIS, CUDNN_TYPE_INT64, what.axis);
  kind.finalize();
  CudnnDescriptor& op = add(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
  op.link(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, kind);
  for (std::size_t i = 0; i < from.size(); ++i) op.link(kInputs[i], tensors_[from.begin()[i]]);
  op.link(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, tensors_[to]);
  op.finalize();
}

void CudnnGraph::reduce(cudnnReduceTensorOp_t what, Tensor from, Tensor to) {
  CudnnDescriptor& kind = kinds_.emplace_back(CUDNN_BACKEND_REDUCTION_DESCRIPTOR);
  kind.set(CUDNN_ATTR_REDUCTION_OPERATOR, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE, what);
  kind.set(CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, CUDNN_DATA_FLOAT);
  kind.finalize();
  CudnnDescriptor& op = add(CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR);
  op.link(CUDNN_ATTR_OPERATION_REDUCTION_XDESC, tensors_[from]);
  op.link(CUDNN_ATTR_OPERATION_REDUCTION_YDESC, tensors_[to]);
  op.link(CUDNN_ATTR_OPERATION_REDUCTION_DESC, kind);
  op.finalize();
}

void CudnnGraph::reshape(Tensor from, Tensor to) {
  CudnnDescriptor& op = add(CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR);
  op.link(CUDNN_ATTR_OPERATION_RESHAPE_XDESC, tensors_[from]);
  op.link(CUDNN_ATTR_OPERATION_RESHAPE_YDESC, tensors_[to]);
  op.finalize();
}

CudnnDescriptor CudnnGraph::finalize() {
  std::vector<cudnnBackendDescriptor_t> all;
  for (const CudnnDescriptor& op : operations_) all.push_back(op.get());
  CudnnDescriptor graph(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
  graph.set(CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR,
            static_cast<std::int64_t>(all.size()), all.data());
  graph.finalize();
  return graph;
}

CudnnPlan::CudnnPlan(CudnnGraph&& graph, const CudnnDescriptor& device)
    : parts_(std::move(graph)), graph_(parts_.finalize()) {
  constexpr std::int64_t kMostEngines = 16;
  CudnnDescriptor heuristic(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
  heuristic.link(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph_);
  heuristic.link(CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, device);
  heuristic.set(CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, CUDNN_HEUR_MODE_A);
  heuristic.finalize();
  std::vector<CudnnDescriptor> configs;
  std::vector<cudnnBackendDescriptor_t> found;
  for (std::int64_t i = 0; i < kMostEngines; ++i)
    found.push_back(configs.emplace_back(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR).get());
  std::int64_t count = 0;
  must_cudnn(
      cudnnBackendGetAttribute(heuristic.get(), CUDNN_ATTR_ENGINEHEUR_RESULTS,
                               CUDNN_TYPE_BACKEND_DESCRIPTOR, kMostEngines, &count, found.data()),
      "CUDNN_ATTR_ENGINEHEUR_RESULTS");
  for (std::int64_t i = 0; i < std::min(count, kMostEngines); ++i)
    if (try_engine(std::move(configs[static_cast<std::size_t>(i)]), device)) return;
  throw CudaError(count == 0 ? "cuDNN has no engine for it"
                             : fmt::format("no engine of cuDNN's runs it: {}", refusal_));
}

bool CudnnPlan::try_engine(CudnnDescriptor&& config, const CudnnDescriptor& device) {
  CudnnDescriptor plan(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
  plan.link(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, config);
  plan.link(CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, device);
  if (const cudnnStatus_t status = plan.try_finalize(); status != CUDNN_STATUS_SUCCESS) {
    std::array<char, 512> detail{};
    cudnnGetLastErrorString(detail.data(), detail.size());
    refusal_ = fmt::format("{} ({})", cudnnGetErrorString(status), detail.data());
    return false;
  }
  std::int64_t bytes = 0, count = 0;
  must_cudnn(cudnnBackendGetAttribute(plan.get(), CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE,
                                      CUDNN_TYPE_INT64, 1, &count, &bytes),
             "CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE");
  workspace_bytes_ = static_cast<std::size_t>(bytes);
  chosen_.push_back(std::move(config));
  chosen_.push_back(std::move(plan));
  return true;
}

void CudnnPlan::run(cudnnHandle_t handle, const std::vector<Binding>& bindings,
                    void* workspace) const {
  std::vector<std::int64_t> ids;
  std::vector<void*> pointers;
  for (const Binding& b : bindings) {
    ids.push_back(b.id);
    pointers.push_back(b.pointer);
  }
  CudnnDescriptor pack(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
  pack.set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64,
           static_cast<std::int64_t>(ids.size()), ids.data());
  pack.set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR,
           static_cast<std::int64_t>(pointers.size()), pointers.data());
  pack.set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, workspace);
  pack.finalize();
  must_cudnn(cudnnBackendExecute(handle, chosen_.back().get(), pack.get()), "cudnnBackendExecute");
}

}  // namespace trainyard
