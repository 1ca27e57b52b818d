#pragma once
#include "core/config/job.h"

namespace trainyard {

// A small GPT-style job on tensor x pipeline x data ranks, one sequence a micro-batch.
inline Job small_job(std::int32_t tensor = 1, std::int32_t pipeline = 1, std::int32_t data = 1,
                     std::int64_t micro_batches = 4) {
  Job job;
  job.name = "small";
  Model& m = job.model;
  m.layers = 8, m.hidden = 256, m.heads = m.kv_heads = 8, m.head_dim = 32, m.ffn = 1024;
  m.vocab = 1000;
  job.parallel.tensor = tensor;
  job.parallel.pipeline = pipeline;
  job.parallel.data = data;
  job.batch = {micro_batches * data, 1, 128};
  job.training.vocab_divisible_by = 1;
  job.cluster.nodes = (tensor * pipeline * data + 7) / 8;
  return job;
}

}  // namespace trainyard
