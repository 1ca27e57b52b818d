#include "core/plan/stage_ends.h"

#include <limits>

namespace trainyard {

StageEnds::StageEnds(const Shared& shared, const Job& job, const StageParameters& parameters,
                     const std::vector<ChunkShape>& shapes)
    : e_(shared.emitter),
      d_(shared.dims),
      job_(job),
      parameters_(parameters),
      sync_(shared.sync),
      gathered_(parameters.buckets.size(), false) {
  for (const ChunkShape& shape : shapes) {
    reads_tokens_ = reads_tokens_ || shape.embeds || shape.heads;
    heads_ = heads_ || shape.heads;
  }
  if (reads_tokens_) {
    const std::int64_t sequences = job.micro_batches() * job.batch.micro_sequences;
    NewBuffer tokens{"tokens", sequences, d_.sequence + 1, DType::int32,
                     MemoryClass::communication};
    buffers_.tokens = e_.global(tokens);
    tokens.name = "staged_tokens";
    tokens.persistent = true;
    staged_ = e_.global(tokens);
  }
  // It is read when the step has ended, so nothing may take its place.
  if (heads_)
    buffers_.loss = e_.global({"loss", 1, 2, DType::fp32, MemoryClass::workspace, {0, 0}, true});
}

bool StageEnds::gathers_early() const { return d_.overlap.data && (d_.zero == 1 || d_.zero == 2); }

// Blocking: the issuing thread loads this step's tokens. Asynchronous: a loader fills the buffer
// for the next step, one loader a node, and its tokens are spread over the tensor ranks.
void StageEnds::load_data() {
  if (!reads_tokens_) return;
  const bool asynchronous = d_.overlap.data_loading;
  Instr load;
  load.op = Op::host;
  load.stream = asynchronous ? Stream::copy : Stream::host;
  load.what = static_cast<std::uint32_t>(HostWork::load_batch);
  load.bytes = e_.size(staged_);
  Instr copy;
  copy.op = Op::copy;
  copy.stream = Stream::copy;
  copy.bytes = e_.size(staged_);
  if (!asynchronous) e_.append(load, {writes(staged_)});
  e_.append(copy, {reads(staged_), writes(buffers_.tokens)});
  if (!asynchronous) return;
  e_.append(load, {writes(staged_)});
  if (d_.tensor_parallel())
    e_.collective({Op::broadcast, Group::tensor, Stream::tensor}, e_.size(buffers_.tokens),
                  {updates(buffers_.tokens)});
}

void StageEnds::gather(std::int32_t bucket, std::uint32_t after) {
  if (gathered_[bucket]) return;
  gathered_[bucket] = true;
  const Bucket& b = parameters_.buckets[bucket];
  sync_.gather(b, b.params, after);
}

void StageEnds::clear_gradients() {
  for (std::size_t b = 0; b < parameters_.buckets.size(); ++b) {
    const Bucket& bucket = parameters_.buckets[b];
    const bool tied = static_cast<std::int32_t>(b) == parameters_.tied_bucket;
    if (d_.zero < 2 || (d_.zero == 2 && tied)) sync_.zero(bucket, bucket.grads);
    if (d_.zero == 3 && job_.micro_batches() > 1)
      e_.kernel(per_parameter(KernelKind::zero, bucket.stepped, 0, 4), {writes(bucket.grad_shard)});
  }
}

PassBody StageEnds::setup(Purpose purpose) {
  PassBody body;
  e_.use_body(body);
  if (job_.software.garbage_collection_ms > 0) {
    Instr pause;
    pause.op = Op::host;
    pause.stream = Stream::host;
    pause.what = static_cast<std::uint32_t>(HostWork::garbage_collection);
    e_.append(pause, {});
  }
  const auto gather_first = [&] {
    if (!gathers_early()) return;
    if (parameters_.tied_bucket >= 0) gather(parameters_.tied_bucket, kNone);
    const auto& buckets = parameters_.chunks.front().buckets;
    for (auto b = buckets.rbegin(); b != buckets.rend(); ++b) gather(*b, kNone);
  };
  if (d_.overlap.prefetch) gather_first();
  load_data();
  gather_first();
  if (purpose == Purpose::training) clear_gradients();
  if (heads_) e_.kernel(per_parameter(KernelKind::zero, 2, 0, 4), {writes(buffers_.loss)});
  return body;
}

PassBody StageEnds::gather_before_forward(std::int32_t chunk) {
  PassBody body;
  if (!gathers_early()) return body;
  e_.use_body(body);
  const auto& buckets = parameters_.chunks[chunk].buckets;
  for (auto b = buckets.rbegin(); b != buckets.rend(); ++b) gather(*b, kNone);
  return body;
}

void StageEnds::reduce_loss() {
  if (heads_ && d_.replicas > 1)
    e_.collective({Op::all_reduce, Group::data, Stream::data}, e_.size(buffers_.loss),
                  {updates(buffers_.loss)});
}

PassBody StageEnds::finish_evaluation() {
  PassBody body;
  e_.use_body(body);
  reduce_loss();
  return body;
}

PassBody StageEnds::finish() {
  PassBody body;
  e_.use_body(body);
  const auto reduce = [&](std::int32_t bucket, std::uint32_t after) {
    const Bucket& b = parameters_.buckets[bucket];
    sync_.reduce(b, {b.grads, b.grad_views}, b.grad_shard, after);
  };
  if (!d_.overlap.data && d_.zero < 3)
    for (auto chunk = parameters_.chunks.rbegin(); chunk != parameters_.chunks.rend(); ++chunk)
      for (const std::int32_t bucket : chunk->buckets) reduce(bucket, kPrevious);
  if (parameters_.tied_bucket >= 0 && d_.zero < 3) reduce(parameters_.tied_bucket, kPrevious);
  reduce_loss();
  // Half precision needs the norm to see gradients overflow, clipped or not.
  const bool overflows = job_.training.precision == Precision::fp16;
  const double limit = job_.training.clip > 0 || !overflows
                           ? job_.training.clip
                           : std::numeric_limits<double>::infinity();
  sync_.step(parameters_.buckets, limit);
  if ((d_.zero == 1 || d_.zero == 2) && !d_.overlap.data)
    for (std::size_t b = 0; b < parameters_.buckets.size(); ++b)
      sync_.gather(parameters_.buckets[b], parameters_.buckets[b].params, kNone);
  return body;
}

}  // namespace trainyard
