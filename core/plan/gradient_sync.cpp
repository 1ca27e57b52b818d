#include "core/plan/gradient_sync.h"

namespace trainyard {

void SyncEmitter::zero(const Bucket& bucket, std::uint32_t grads) {
  e_.kernel(per_parameter(KernelKind::zero, bucket.padded, 0, 4), {writes(grads)});
}

void SyncEmitter::reduce(const Bucket& bucket, const Gathered& grads, std::uint32_t shard,
                         std::uint32_t after) {
  const Bytes full{bucket.padded * size_of(DType::fp32)};
  std::uint32_t first = kNone;
  const auto emit = [&](Op op, Group group, Bytes bytes, std::initializer_list<Use> uses) {
    const std::uint32_t instr = e_.collective({op, group, Stream::data}, bytes, uses);
    if (first == kNone) first = instr;
  };
  if (d_.partial_norm_gradients() && bucket.replicated > 0) {
    const std::uint32_t replicated =
        e_.prefix(grads.flat,
                  {"replicated_grads", 1, bucket.replicated, DType::fp32, MemoryClass::gradients});
    emit(Op::all_reduce, Group::tensor, {bucket.replicated * size_of(DType::fp32)},
         {updates(replicated)});
  }
  if (bucket.embedding && tied_across_stages_)
    emit(Op::all_reduce, Group::embedding, full, {updates(grads.flat)});
  if (d_.zero > 0)
    emit(Op::reduce_scatter, Group::data, full, {reads(grads.flat), writes(shard)});
  else if (d_.replicas > 1)
    emit(Op::all_reduce, Group::data, full, {updates(grads.flat)});
  if (first != kNone && after != kNone) e_.wait_for(first, after);
}

std::uint32_t SyncEmitter::gather(const Bucket& bucket, std::uint32_t full, std::uint32_t after) {
  const std::uint32_t instr =
      e_.collective({Op::all_gather, Group::data, Stream::data}, e_.size(full),
                    {reads(bucket.param_shard), writes(full)});
  if (after != kNone) e_.wait_for(instr, after);
  return instr;
}

void SyncEmitter::clip(std::span<const Bucket> buckets, double largest_norm) {
  const std::uint32_t sum = e_.global({"grad_norm", 1, 2, DType::fp32, MemoryClass::workspace});
  e_.kernel(per_parameter(KernelKind::zero, 2, 0, 4), {writes(sum)});
  for (const Bucket& bucket : buckets)
    e_.kernel(per_parameter(KernelKind::grad_norm, bucket.stepped, 4, 0),
              {reads(owned_grads(bucket)), updates(sum)});
  e_.collective({Op::all_reduce, d_.zero > 0 ? Group::world : Group::model, Stream::data},
                e_.size(sum), {updates(sum)});
  Instr read;
  read.op = Op::host;
  read.stream = Stream::host;
  read.what = static_cast<std::uint32_t>(HostWork::read_scalar);
  read.bytes = e_.size(sum);
  e_.append(read, {reads(sum)});
  for (const Bucket& bucket : buckets) {
    KernelSpec spec = per_parameter(KernelKind::grad_clip, bucket.stepped, 4, 4);
    spec.parameter = largest_norm;
    e_.kernel(spec, {updates(owned_grads(bucket)), reads(sum)});
  }
}

void SyncEmitter::update(const Bucket& b) {
  const std::uint32_t grads = owned_grads(b), params = owned_params(b);
  // fp32 training has no master copy: the parameters themselves are updated.
  const bool mixed = b.master != kNone;
  const double element = static_cast<double>(d_.element());
  const double weight_read = mixed ? 4 : element, weight_written = mixed ? 4 + element : element;
  const Use master = mixed ? updates(b.master) : updates(params);
  if (d_.optimizer != Optimizer::lamb) {
    const KernelKind kind = d_.optimizer == Optimizer::adam ? KernelKind::adam : KernelKind::adamw;
    const std::uint32_t instr =
        e_.kernel(per_parameter(kind, b.stepped, 12 + weight_read, 8 + weight_written),
                  {reads(grads), updates(b.moment1), updates(b.moment2), master});
    if (mixed) e_.add_use(instr, writes(params));
    return;
  }
  const auto tensors = static_cast<std::int64_t>(b.tensors.size());
  const std::uint32_t direction =
      e_.global({b.name + ".direction", 1, b.stepped, DType::fp32, MemoryClass::workspace});
  const std::uint32_t norms =
      e_.global({b.name + ".norms", tensors, 2, DType::fp32, MemoryClass::workspace});
  e_.kernel(per_parameter(KernelKind::lamb_update, b.stepped, 12 + weight_read, 12),
            {reads(grads), updates(b.moment1), updates(b.moment2), reads(mixed ? b.master : params),
             writes(direction), writes(norms)});
  if (d_.tensor_parallel())
    e_.collective({Op::all_reduce, Group::tensor, Stream::data}, e_.size(norms), {updates(norms)});
  if (d_.zero > 0)
    e_.collective({Op::all_reduce, Group::data, Stream::data}, e_.size(norms), {updates(norms)});
  const std::uint32_t instr =
      e_.kernel(per_parameter(KernelKind::lamb_apply, b.stepped, 4 + weight_read, weight_written),
                {reads(direction), reads(norms), master});
  if (mixed) e_.add_use(instr, writes(params));
}

void SyncEmitter::step(std::span<const Bucket> buckets, double largest_norm) {
  if (largest_norm > 0) clip(buckets, largest_norm);
  for (const Bucket& bucket : buckets) update(bucket);
}

}  // namespace trainyard
