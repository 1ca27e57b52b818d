#include "core/plan/dims.h"

#include "core/plan/pipeline_order.h"

namespace trainyard {
namespace {

DType storage(Precision precision) {
  switch (precision) {
    case Precision::fp32:
      return DType::fp32;
    case Precision::bf16:
      return DType::bf16;
    case Precision::fp16:
      return DType::fp16;
  }
  return DType::fp32;
}

}  // namespace

Dims::Dims(const Job& job)
    : model(job.model),
      tensor(job.parallel.tensor),
      context(job.parallel.context),
      replicas(job.parallel.data * context),
      micro_batch(job.batch.micro_sequences),
      sequence(job.batch.sequence_length),
      dtype(storage(job.training.precision)),
      recompute(job.training.recompute),
      optimizer(job.training.optimizer),
      overlap(job.schedule.overlap) {
  const Model& m = model;
  tokens = micro_batch * sequence / context;
  sequence_parallel = job.parallel.sequence && tensor > 1;
  shard_tokens = sequence_parallel ? tokens / tensor : tokens;
  heads = m.heads / tensor;
  kv_heads = m.kv_heads / tensor;
  query = heads * m.head_dim;
  kv = kv_heads * m.head_dim;
  qkv = query + 2 * kv;
  fc1 = m.fc1_width() / tensor;
  ffn = m.ffn / tensor;
  vocab = padded_vocab(m.vocab, tensor, job.training.vocab_divisible_by);
  local_vocab = vocab / tensor;
  parallel_block = m.block == Block::parallel;
  parts = overlap.tensor && tensor > 1 ? job.schedule.tensor_chunks : 1;
  zero = replicas > 1 ? job.parallel.zero : 0;
  split_backward = has_weight_grad_passes(job.schedule.pipeline);
}

}  // namespace trainyard
