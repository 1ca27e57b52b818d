#include "core/plan/parameter_layout.h"

#include <algorithm>

#include "core/error.h"
#include "core/plan/stage_parameters.h"

namespace trainyard {
namespace {

// A logical tensor inside a fused one, and its width on one rank.
struct Part {
  const char* name;
  std::int64_t width;
};

// Cuts a rank's tensors into the rectangles of logical tensors they consist of.
class Cutter {
 public:
  Cutter(const Dims& dims, std::int32_t tensor_rank) : d_(dims), rank_(tensor_rank) {}

  std::vector<HeldRectangle> cut(const Bucket& bucket) {
    const std::vector<std::int64_t> offsets = tensor_offsets(bucket.tensors);
    for (std::size_t i = 0; i < bucket.tensors.size(); ++i)
      if (bucket.tensors[i].elements() > 0) cut_tensor(bucket.tensors[i], offsets[i]);
    return std::move(result_);
  }

 private:
  void cut_tensor(const Tensor& t, std::int64_t offset) {
    const std::size_t dot = t.name.find('.');
    prefix_ = dot == std::string::npos ? "" : t.name.substr(0, dot + 1);
    const std::string kind = t.name.substr(prefix_.size());
    if (t.replicated)
      add(kind.c_str(), {t.rows, t.columns}, {0, 0, t.rows, t.columns}, {offset, t.columns, true});
    else if (kind == "embedding" || kind == "head")
      add_vocabulary(t, kind.c_str(), offset);
    else if (kind == "qkv")
      add_columns(t, offset, with_fused(qkv_parts(false)));
    else if (kind == "qkv_bias")
      add_columns(t, offset, qkv_parts(true));
    else if (kind == "fc1")
      add_columns(t, offset, fc1_parts(false));
    else if (kind == "fc1_bias")
      add_columns(t, offset, fc1_parts(true));
    else if (kind == "proj")
      add_rows(t, offset);
    else if (kind == "fc2")
      add(kind.c_str(), {d_.ffn * d_.tensor, t.columns}, {d_.ffn * rank_, 0, t.rows, t.columns},
          {offset, t.columns, false});
    else
      check(false, "no logical tensor is known for {}", t.name);
  }

  std::vector<Part> qkv_parts(bool bias) const {
    return {{bias ? "q_bias" : "q", d_.query},
            {bias ? "k_bias" : "k", d_.kv},
            {bias ? "v_bias" : "v", d_.kv}};
  }
  std::vector<Part> fc1_parts(bool bias) const {
    if (d_.model.activation != Activation::swiglu) return {{bias ? "fc1_bias" : "fc1", d_.ffn}};
    return {{bias ? "gate_bias" : "gate", d_.ffn}, {bias ? "value_bias" : "value", d_.ffn}};
  }
  std::vector<Part> with_fused(std::vector<Part> parts) const {
    if (d_.parallel_block)
      for (const Part& part : fc1_parts(false)) parts.push_back(part);
    return parts;
  }

  // Each part's columns are split over the tensor ranks, and a rank's shares lie side by side.
  void add_columns(const Tensor& t, std::int64_t offset, const std::vector<Part>& parts) {
    for (const Part& part : parts) {
      add(part.name, {t.rows, part.width * d_.tensor}, {0, part.width * rank_, t.rows, part.width},
          {offset, t.columns, false});
      offset += part.width;
    }
  }

  // As add_columns(), for rows: shares lie one above the other.
  void add_rows(const Tensor& t, std::int64_t offset) {
    std::vector<Part> parts{{"proj", d_.query}};
    if (d_.parallel_block) parts.push_back({"fc2", d_.ffn});
    for (const Part& part : parts) {
      add(part.name, {part.width * d_.tensor, t.columns},
          {part.width * rank_, 0, part.width, t.columns}, {offset, t.columns, false});
      offset += part.width * t.columns;
    }
  }

  // Rows beyond the logical vocabulary are padding.
  void add_vocabulary(const Tensor& t, const char* name, std::int64_t offset) {
    const std::int64_t first = t.rows * rank_, rows = std::min(t.rows, d_.model.vocab - first);
    if (rows > 0)
      add(name, {d_.model.vocab, t.columns}, {first, 0, rows, t.columns},
          {offset, t.columns, false});
  }

  struct Area {
    std::int64_t first_row, first_column, rows, columns;
  };
  struct Place {
    std::int64_t offset, row_stride;
    bool replicated;
  };
  void add(const char* name, std::array<std::int64_t, 2> shape, Area a, Place p) {
    result_.push_back({{prefix_ + name, shape, a.first_row, a.first_column, a.rows, a.columns,
                        p.offset, p.row_stride},
                       p.replicated});
  }

  const Dims& d_;
  std::int32_t rank_;
  std::string prefix_;
  std::vector<HeldRectangle> result_;
};

std::vector<HeldTensor> held_tensors(const Bucket& bucket) {
  const std::vector<std::int64_t> offsets = tensor_offsets(bucket.tensors);
  std::vector<HeldTensor> held;
  for (std::size_t i = 0; i < bucket.tensors.size(); ++i) {
    const Tensor& t = bucket.tensors[i];
    held.push_back({t.name, offsets[i], t.elements(), t.replicated});
  }
  return held;
}

}  // namespace

std::vector<BucketLayout> bucket_layouts(const Job& job, std::int32_t stage,
                                         std::int32_t tensor_rank) {
  const Dims dims(job);
  Program scratch;
  Emitter emitter(scratch);
  const StageParameters parameters = stage_parameters(emitter, dims, stage_chunks(job, stage));
  std::vector<BucketLayout> layouts;
  for (const Bucket& bucket : parameters.buckets)
    layouts.push_back({bucket.name, bucket.padded, bucket.stepped, bucket.embedding,
                       held_tensors(bucket), Cutter(dims, tensor_rank).cut(bucket)});
  return layouts;
}

}  // namespace trainyard
