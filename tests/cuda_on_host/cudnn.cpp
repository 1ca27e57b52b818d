#include <cudnn.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <set>

#include "tests/cuda_on_host/cudnn_run.h"
#include "tests/cuda_on_host/stream.h"

// One engine, which runs any graph of operations on tensors in 16 bits with heads that cuDNN's
// engines take. What calls have to keep to is checked: attributes (cudnn_descriptors.cpp), pointers
// for all tensors in memory and for no others, memory of the GPU, aligned as was said.

using namespace trainyard::cuda_on_host;

struct cudnnContext {
  cudaStream_t stream = nullptr;
};

namespace {

thread_local std::string last_problem;
std::atomic<int> runs{0};

template <class F>
cudnnStatus_t answer(F f) {
  try {
    f();
    return CUDNN_STATUS_SUCCESS;
  } catch (const CudnnRefusal& refusal) {
    last_problem = refusal.why;
    return refusal.status;
  }
}

Descriptor& known(cudnnBackendDescriptor_t d) {
  expect_cudnn(d != nullptr, "no descriptor");
  return **static_cast<Handle>(d);
}

bool is_16_bit(const TensorOf& t) {
  return t.type == CUDNN_DATA_BFLOAT16 || t.type == CUDNN_DATA_HALF;
}

// What an attention graph is to an engine: its products, of which a backward pass has five.
struct Shape {
  std::vector<OperationOf> products;

  explicit Shape(const Descriptor& graph) {
    for (const auto& op : graph.links.at(CUDNN_ATTR_OPERATIONGRAPH_OPS))
      if (op->type == CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR)
        products.push_back(operation_of(*op));
  }
  bool is_backward() const { return products.size() == 5; }
  // Heads in multiples of 8, at most 256 forward and 128 backward, as on compute capability 8.0.
  std::string refusal() const {
    if (products.size() != 2 && !is_backward()) return "no pattern of operations that is known";
    for (const OperationOf& p : products)
      for (const TensorOf& t : p.from)
        if (!t.is_virtual && !is_16_bit(t)) return "factors in memory are in 16 bits";
    const std::int64_t dim = products[0].from[0].dims[3];
    if (dim % 8 != 0 || dim > (is_backward() ? 128 : 256))
      return "heads of " + std::to_string(dim) + " elements";
    return {};
  }
  // Products that add to fp32 in memory are blocks' sums, in the order in which they come.
  bool is_repeatable() const {
    return std::ranges::none_of(products, [](const OperationOf& p) {
      return !p.to.is_virtual && p.to.type == CUDNN_DATA_FLOAT;
    });
  }
  std::int64_t workspace_bytes() const {
    return is_backward() && is_repeatable() ? 2 * products[0].to.elements() : 256;
  }
};

const Descriptor& graph_of_plan(const Descriptor& plan) {
  return plan.link(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG)
      .link(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH);
}

void bind(Bindings& to, const TensorOf& t, void* pointer) {
  if (t.by_value) {
    expect_cudnn(pointer != nullptr, "a value that the host does not give");
    to.scalars[t.id] = *static_cast<const float*>(pointer);
    return;
  }
  const auto bytes = static_cast<std::size_t>((t.last() + 1) * bytes_of(t.type));
  expect_cudnn(is_device_memory(pointer, bytes), "a tensor that is not in the GPU's memory");
  expect_cudnn(
      reinterpret_cast<std::uintptr_t>(pointer) % static_cast<std::uintptr_t>(t.alignment) == 0,
      "a tensor that is not aligned as was said");
  to.pointers[t.id] = pointer;
}

Bindings bindings_of(const Descriptor& graph, const Descriptor& pack) {
  const auto ids = pack.all<std::int64_t>(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS);
  const auto pointers = pack.all<void*>(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS);
  expect_cudnn(ids.size() == pointers.size(), "ids without pointers");
  Bindings out;
  std::set<std::int64_t> met;
  const auto meet = [&](const TensorOf& t) {
    if (t.is_virtual || !met.insert(t.id).second) return;
    const auto found = std::ranges::find(ids, t.id);
    expect_cudnn(found != ids.end(), "no pointer for a tensor in memory");
    bind(out, t, pointers[static_cast<std::size_t>(found - ids.begin())]);
  };
  for (const auto& each : graph.links.at(CUDNN_ATTR_OPERATIONGRAPH_OPS)) {
    const OperationOf op = operation_of(*each);
    for (const TensorOf& t : op.from) meet(t);
    meet(op.to);
  }
  expect_cudnn(met.size() == ids.size(), "pointers for tensors that are not in memory");
  return out;
}

// Results of the heuristic: the descriptors that the caller made are filled.
std::int64_t find_engines(const Descriptor& heuristic, std::int64_t room, void* values) {
  const auto graph = heuristic.links.at(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH);
  const std::string refusal = Shape(*graph[0]).refusal();
  if (!refusal.empty() || room < 1) {
    last_problem = refusal;
    return 0;
  }
  Descriptor& config = **static_cast<Handle*>(values)[0];
  expect_cudnn(config.type == CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, "no engine configuration");
  config.links[CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH] = graph;
  config.finalized = true;
  return 1;
}

}  // namespace

int trainyard::cuda_on_host::cudnn_runs() { return runs; }

std::size_t cudnnGetVersion() { return 91900; }

const char* cudnnGetErrorString(cudnnStatus_t status) {
  switch (status) {
    case CUDNN_STATUS_SUCCESS:
      return "CUDNN_STATUS_SUCCESS";
    case CUDNN_STATUS_NOT_INITIALIZED:
      return "CUDNN_STATUS_NOT_INITIALIZED";
    case CUDNN_STATUS_BAD_PARAM:
      return "CUDNN_STATUS_BAD_PARAM";
    default:
      return "CUDNN_STATUS_NOT_SUPPORTED";
  }
}

void cudnnGetLastErrorString(char* message, std::size_t size) {
  if (size == 0) return;
  const std::size_t length = std::min(size - 1, last_problem.size());
  std::memcpy(message, last_problem.data(), length);
  message[length] = '\0';
}

cudnnStatus_t cudnnCreate(cudnnHandle_t* handle) {
  *handle = new cudnnContext;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnDestroy(cudnnHandle_t handle) {
  delete handle;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream) {
  handle->stream = stream;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t type,
                                           cudnnBackendDescriptor_t* descriptor) {
  auto made = std::make_shared<Descriptor>();
  made->type = type;
  *descriptor = new std::shared_ptr<Descriptor>(std::move(made));
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t descriptor) {
  delete static_cast<Handle>(descriptor);
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t descriptor) {
  return answer([&] { finalize(known(descriptor)); });
}

cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t descriptor,
                                       cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, std::int64_t count,
                                       const void* values) {
  return answer([&] { set_attribute(known(descriptor), name, type, count, values); });
}

cudnnStatus_t cudnnBackendGetAttribute(cudnnBackendDescriptor_t descriptor,
                                       cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, std::int64_t requested,
                                       std::int64_t* count, void* values) {
  return answer([&] {
    const Descriptor& d = known(descriptor);
    expect_cudnn(d.finalized && values != nullptr && requested > 0, "nothing to ask for yet");
    const auto asks = [&](Attribute attribute, cudnnBackendAttributeType_t of) {
      if (name == attribute) expect_cudnn(type == of, "an attribute of another type");
      return name == attribute;
    };
    *count = 1;
    if (asks(CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR))
      *count = find_engines(d, requested, values);
    else if (asks(CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64))
      *static_cast<std::int64_t*>(values) = Shape(graph_of_plan(d)).workspace_bytes();
    else
      expect_cudnn(false, "an attribute that the descriptor does not have");
  });
}

cudnnStatus_t cudnnBackendExecute(cudnnHandle_t handle, cudnnBackendDescriptor_t plan,
                                  cudnnBackendDescriptor_t variant_pack) {
  return answer([&] {
    const Descriptor &p = known(plan), &pack = known(variant_pack);
    expect_cudnn(handle != nullptr && p.finalized && pack.finalized, "nothing that can be run");
    const Descriptor& graph = graph_of_plan(p);
    const auto bytes = static_cast<std::size_t>(Shape(graph).workspace_bytes());
    void* workspace = pack.one<void*>(CUDNN_ATTR_VARIANT_PACK_WORKSPACE);
    expect_cudnn(is_device_memory(workspace, bytes), "a workspace that is too small");
    enqueue(handle->stream, [kept = *static_cast<Handle>(plan), workspace, bytes,
                             bindings = bindings_of(graph, pack)] {
      std::memset(workspace, 0xff, bytes);  // as the library may write there
      run_graph(graph_of_plan(*kept), bindings);
    });
    ++runs;
  });
}
