#pragma once
#include <cudnn.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <vector>

// How the stand-in for cuDNN keeps descriptors: the values that were set, each of the type and
// count that the library asks for, none missing once a descriptor is finalized.
namespace trainyard::cuda_on_host {

using Attribute = cudnnBackendAttributeName_t;

// A call that cuDNN would not take.
struct CudnnRefusal {
  cudnnStatus_t status;
  std::string why;
};
// Throws CudnnRefusal with CUDNN_STATUS_BAD_PARAM unless `condition`.
void expect_cudnn(bool condition, const std::string& why);

struct Descriptor {
  cudnnBackendDescriptorType_t type;
  bool finalized = false;
  std::map<Attribute, std::vector<std::byte>> values;
  std::map<Attribute, std::vector<std::shared_ptr<const Descriptor>>> links;

  bool has(Attribute name) const { return values.contains(name) || links.contains(name); }
  template <class V>
  std::vector<V> all(Attribute name) const {
    const auto found = values.find(name);
    if (found == values.end()) return {};
    std::vector<V> out(found->second.size() / sizeof(V));
    std::memcpy(out.data(), found->second.data(), out.size() * sizeof(V));
    return out;
  }
  template <class V>
  V one(Attribute name) const {
    V value{};
    std::memcpy(&value, values.at(name).data(), sizeof value);
    return value;
  }
  const Descriptor& link(Attribute name) const { return *links.at(name).at(0); }
};

using Handle = std::shared_ptr<Descriptor>*;  // what cudnnBackendDescriptor_t is here

void set_attribute(Descriptor& to, Attribute name, cudnnBackendAttributeType_t type,
                   std::int64_t count, const void* values);
// Checks that nothing is missing and that shapes fit each other.
void finalize(Descriptor& descriptor);

// A tensor descriptor, and an operation's tensors, read.
struct TensorOf {
  std::int64_t id = 0;
  cudnnDataType_t type{};
  std::array<std::int64_t, 4> dims{}, strides{};
  std::int64_t alignment = 1;
  bool is_virtual = false, by_value = false;

  explicit TensorOf(const Descriptor& from);
  std::int64_t elements() const { return dims[0] * dims[1] * dims[2] * dims[3]; }
  std::int64_t last() const;  // the element furthest from the first
};
struct OperationOf {
  std::vector<TensorOf> from;
  TensorOf to;
};
OperationOf operation_of(const Descriptor& operation);
std::int64_t bytes_of(cudnnDataType_t type);

}  // namespace trainyard::cuda_on_host
