#pragma once
#include <cudnn.h>

#include <array>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

#include "backends/cuda/kernels/cuda_error.h"

namespace trainyard {

// Throws CudaError with cuDNN's own account of it unless `status` is success.
void must_cudnn(cudnnStatus_t status, const char* call);

// A descriptor of cuDNN's backend API.
class CudnnDescriptor {
 public:
  explicit CudnnDescriptor(cudnnBackendDescriptorType_t type);
  ~CudnnDescriptor();
  CudnnDescriptor(CudnnDescriptor&& other) noexcept : descriptor_(other.descriptor_) {
    other.descriptor_ = nullptr;
  }
  CudnnDescriptor& operator=(CudnnDescriptor&&) = delete;

  void set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, std::int64_t count,
           const void* values);
  template <class V>
  void set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, const V& value) {
    set(name, type, 1, &value);
  }
  void link(cudnnBackendAttributeName_t name, const CudnnDescriptor& to);
  // Nothing is set afterwards.
  void finalize() { must_cudnn(try_finalize(), "cudnnBackendFinalize"); }
  cudnnStatus_t try_finalize() { return cudnnBackendFinalize(descriptor_); }
  cudnnBackendDescriptor_t get() const { return descriptor_; }

 private:
  cudnnBackendDescriptor_t descriptor_ = nullptr;
};

// The GPU that engines are chosen for: one of this process, or, to ask what cuDNN would do on a GPU
// that is not here, one that its JSON form describes.
CudnnDescriptor cudnn_device(std::int32_t number);
CudnnDescriptor cudnn_device(const std::string& json);

// Operations on tensors of four dims: batch, head, row, column.
class CudnnGraph {
 public:
  using Dims = std::array<std::int64_t, 4>;
  using Tensor = std::size_t;

  // In memory; its id is that of run()'s pointers.
  Tensor in_memory(std::int64_t id, cudnnDataType_t type, const Dims& dims, const Dims& strides);
  // Row-major without gaps.
  Tensor in_memory(std::int64_t id, cudnnDataType_t type, const Dims& dims) {
    return in_memory(id, type, dims, packed(dims));
  }
  // One number that the host gives with the pointers.
  Tensor scalar(std::int64_t id);
  // Between two operations.
  Tensor between(cudnnDataType_t type, const Dims& dims, const Dims& strides);
  Tensor between(cudnnDataType_t type, const Dims& dims) {
    return between(type, dims, packed(dims));
  }
  static Dims packed(const Dims& dims);

  void matmul(Tensor a, Tensor b, Tensor to);
  // `third`: BINARY_SELECT's condition. `axis`: GEN_INDEX's dim.
  struct Pointwise {
    cudnnPointwiseMode_t mode;
    cudnnDataType_t arithmetic = CUDNN_DATA_FLOAT;
    std::int64_t axis = -1;
  };
  void pointwise(const Pointwise& what, std::initializer_list<Tensor> from, Tensor to);
  void reduce(cudnnReduceTensorOp_t op, Tensor from, Tensor to);
  // The same numbers under other strides.
  void reshape(Tensor from, Tensor to);

  // Throws CudaError when cuDNN does not take the operations together.
  CudnnDescriptor finalize();

 private:
  CudnnDescriptor& add(cudnnBackendDescriptorType_t type);
  struct TensorInfo {
    std::int64_t id = 0;
    cudnnDataType_t type = CUDNN_DATA_FLOAT;
    Dims dims{}, strides{};
    bool is_virtual = false, by_value = false;
  };
  Tensor add(const TensorInfo& info);
  std::int64_t next_between_ = 1000;
  std::vector<CudnnDescriptor> tensors_, kinds_, operations_;
};

// A graph with an engine that runs it.
class CudnnPlan {
 public:
  // Throws CudaError, with what cuDNN says, when no engine does.
  CudnnPlan(CudnnGraph&& graph, const CudnnDescriptor& device);

  std::size_t workspace_bytes() const { return workspace_bytes_; }
  struct Binding {
    std::int64_t id;
    void* pointer;
  };
  // On the handle's stream.
  void run(cudnnHandle_t handle, const std::vector<Binding>& bindings, void* workspace) const;

 private:
  bool try_engine(CudnnDescriptor&& config, const CudnnDescriptor& device);

  CudnnGraph parts_;
  CudnnDescriptor graph_;
  std::vector<CudnnDescriptor> chosen_;  // the engine's configuration, the plan
  std::size_t workspace_bytes_ = 0;
  std::string refusal_;
};

}  // namespace trainyard
