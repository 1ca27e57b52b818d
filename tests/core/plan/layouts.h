#pragma once
#include <functional>
#include <string>
#include <vector>

#include "core/config/job.h"

namespace trainyard {

struct TinyLayout {
  std::int32_t tensor = 1, pipeline = 1, data = 1, virtual_stages = 1, zero = 0;
  std::int32_t context = 1;
  bool sequence = false;
  bool fused = false;  // parallel block with joint products
};

// Two layers of hidden 4, 2 heads of 2, ffn 8, sequence 3; vocabulary 5, so that it needs padding
// on more than one tensor rank.
inline Job tiny_job(const TinyLayout& layout) {
  Job job;
  job.name = "tiny";
  Model& m = job.model;
  m.layers = 2, m.hidden = 4, m.heads = m.kv_heads = 2, m.head_dim = 2, m.ffn = 8, m.vocab = 5;
  job.parallel.tensor = layout.tensor;
  job.parallel.pipeline = layout.pipeline;
  job.parallel.data = layout.data;
  job.parallel.virtual_stages = layout.virtual_stages;
  job.parallel.zero = layout.zero;
  job.parallel.context = layout.context;
  job.parallel.sequence = layout.sequence;
  job.batch = {4 * layout.data, 1, 3};
  job.training.vocab_divisible_by = 1;
  if (layout.virtual_stages > 1) job.schedule.pipeline = Order::interleaved_1f1b;
  if (layout.fused) {
    m.block = Block::parallel;
    job.schedule.overlap.tensor = true;
    job.schedule.tensor_chunks = 1;
  }
  return job;
}

struct LayoutCase {
  std::string name;
  TinyLayout layout;
  std::function<void(Job&)> change = [](Job&) {};
  Job job() const {
    Job job = tiny_job(layout);
    change(job);
    return job;
  }
};

inline void llama(Job& job) {
  Model& m = job.model;
  m.heads = 4, m.kv_heads = 2, m.tied = false, m.bias = false;
  m.norm = Norm::rmsnorm, m.activation = Activation::swiglu, m.position = Position::rope;
}

// Layouts that differ in every way in which parameters can be cut.
inline std::vector<LayoutCase> layout_cases() {
  const auto layers = [](std::int64_t count) {
    return [=](Job& job) { job.model.layers = count; };
  };
  return {
      {"one rank", {}},
      {"tensor 2", {.tensor = 2}},
      {"tensor 2, sequence", {.tensor = 2, .sequence = true}},
      {"tensor 2, pipeline 2, data 3, zero 1", {.tensor = 2, .pipeline = 2, .data = 3, .zero = 1}},
      {"pipeline 2, virtual 2", {.pipeline = 2, .virtual_stages = 2}, layers(4)},
      {"pipeline 2, uneven",
       {.pipeline = 2},
       [](Job& job) {
         job.model.layers = 3;
         job.parallel.layers_per_stage = {1, 2};
       }},
      {"data 3, zero 2", {.data = 3, .zero = 2}},
      {"data 5, zero 3, untied", {.data = 5, .zero = 3}, [](Job& job) { job.model.tied = false; }},
      {"llama, tensor 2", {.tensor = 2}, llama},
      {"llama, pipeline 2, data 2, zero 2", {.pipeline = 2, .data = 2, .zero = 2}, llama},
      {"parallel block, tensor 2",
       {.tensor = 2},
       [](Job& job) { job.model.block = Block::parallel; }},
      {"fused block, tensor 2", {.tensor = 2, .sequence = true, .fused = true}},
      {"fused llama block, tensor 2, data 3, zero 1",
       {.tensor = 2, .data = 3, .zero = 1, .sequence = true, .fused = true},
       llama},
      {"mostly padding", {.tensor = 2}, [](Job& job) { job.training.vocab_divisible_by = 8; }},
      {"bf16, data 7, zero 1",
       {.data = 7, .zero = 1},
       [](Job& job) { job.training.precision = Precision::bf16; }},
  };
}

}  // namespace trainyard
