#include "core/plan/parameters.h"

#include <fmt/core.h>

namespace trainyard {
namespace {

struct Storage {
  DType dtype;
  MemoryClass memory;
  bool persistent = false;
};

std::vector<std::uint32_t> views_of(Emitter& e, std::uint32_t flat,
                                    const std::vector<Tensor>& tensors, const Storage& storage) {
  const std::vector<std::int64_t> offsets = tensor_offsets(tensors);
  std::vector<std::uint32_t> views(tensors.size(), kNone);
  for (const bool replicated : {true, false}) {
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      const Tensor& t = tensors[i];
      if (t.replicated != replicated || t.elements() == 0) continue;
      const NewBuffer view{t.name,         t.rows, t.columns,         storage.dtype,
                           storage.memory, {0, 0}, storage.persistent};
      views[i] = e.slice(flat, offsets[i], view, static_cast<std::int32_t>(i));
    }
  }
  return views;
}

}  // namespace

std::vector<std::int64_t> tensor_offsets(const std::vector<Tensor>& tensors) {
  std::vector<std::int64_t> offsets(tensors.size());
  std::int64_t next = 0;
  for (const bool replicated : {true, false}) {
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      if (tensors[i].replicated != replicated) continue;
      offsets[i] = next;
      next += tensors[i].elements();
    }
  }
  return offsets;
}

Bucket make_bucket(Emitter& e, const Dims& d, std::string name, std::vector<Tensor> tensors) {
  Bucket b;
  b.name = std::move(name);
  b.tensors = std::move(tensors);
  for (const Tensor& t : b.tensors) {
    b.elements += t.elements();
    if (t.replicated) b.replicated += t.elements();
  }
  const std::int64_t shards = d.zero > 0 ? d.replicas : 1;
  b.padded = (b.elements + shards - 1) / shards * shards;
  b.stepped = b.padded / shards;

  const auto flat = [&](const char* what, std::int64_t elements, const Storage& storage) {
    return e.global({fmt::format("{}.{}", b.name, what),
                     1,
                     elements,
                     storage.dtype,
                     storage.memory,
                     {1, d.zero > 0 ? b.padded : elements},
                     storage.persistent});
  };
  if (d.zero < 3) {
    b.params = flat("params", b.padded, {d.dtype, MemoryClass::parameters, true});
    b.param_views = views_of(e, b.params, b.tensors, {d.dtype, MemoryClass::parameters, true});
    b.grads = flat("grads", b.padded, {DType::fp32, MemoryClass::gradients, d.zero < 2});
    b.grad_views =
        views_of(e, b.grads, b.tensors, {DType::fp32, MemoryClass::gradients, d.zero < 2});
  }
  if (d.zero > 0) {
    // The shard has to last where it is gathered at the start of the next step, or where there
    // is no other master copy.
    const bool keep = d.zero == 3 || d.overlap.data || d.dtype == DType::fp32;
    b.param_shard = flat("param_shard", b.stepped, {d.dtype, MemoryClass::parameters, keep});
    b.grad_shard =
        flat("grad_shard", b.stepped, {DType::fp32, MemoryClass::gradients, d.zero == 3});
  }
  if (d.dtype != DType::fp32)
    b.master = flat("master", b.stepped, {DType::fp32, MemoryClass::optimizer, true});
  b.moment1 = flat("moment1", b.stepped, {DType::fp32, MemoryClass::optimizer, true});
  b.moment2 = flat("moment2", b.stepped, {DType::fp32, MemoryClass::optimizer, true});
  return b;
}

Gathered gathered_parameters(Emitter& e, const Dims& d, const Bucket& b) {
  Gathered g;
  g.flat = e.local({b.name + ".gathered", 1, b.padded, d.dtype, MemoryClass::communication});
  g.views = views_of(e, g.flat, b.tensors, {d.dtype, MemoryClass::communication});
  return g;
}

Gathered pass_gradients(Emitter& e, const Bucket& b) {
  Gathered g;
  g.flat = e.local({b.name + ".pass_grads", 1, b.padded, DType::fp32, MemoryClass::gradients});
  g.views = views_of(e, g.flat, b.tensors, {DType::fp32, MemoryClass::gradients});
  return g;
}

std::vector<Tensor> layer_tensors(const Dims& d, std::int64_t layer) {
  const Model& m = d.model;
  const std::int64_t h = m.hidden, bias = m.bias ? 1 : 0;
  const std::int64_t norm_rows = m.norm == Norm::layernorm ? 2 : 1;
  const bool joint = d.parallel_block;
  const auto name = [&](const char* what) { return fmt::format("layer{}.{}", layer, what); };
  return {
      {name("norm1"), norm_rows, h, true},
      {name("qkv"), h, d.qkv + (joint ? d.fc1 : 0), false},
      {name("qkv_bias"), bias, d.qkv, false},
      {name("proj"), d.query + (joint ? d.ffn : 0), h, false},
      {name("proj_bias"), bias, h, true},
      {name("norm2"), joint ? 0 : norm_rows, h, true},
      {name("fc1"), joint ? 0 : h, d.fc1, false},
      {name("fc1_bias"), bias, d.fc1, false},
      {name("fc2"), joint ? 0 : d.ffn, h, false},
      {name("fc2_bias"), joint ? 0 : bias, h, true},  // of a parallel block: proj_bias
  };
}

}  // namespace trainyard
