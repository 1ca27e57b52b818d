#pragma once
#include <span>

#include "core/plan/dims.h"
#include "core/plan/emitter.h"
#include "core/plan/parameters.h"

namespace trainyard {

// The instructions that keep data-parallel replicas, replicated tensors and tied tables in step.
class SyncEmitter {
 public:
  SyncEmitter(Emitter& emitter, const Dims& dims, bool tied_across_stages)
      : e_(emitter), d_(dims), tied_across_stages_(tied_across_stages) {}

  void zero(const Bucket& bucket, std::uint32_t grads);
  // Sums gradients over the tensor ranks (replicated tensors computed on a share of the rows),
  // over first and last stage (tied tables), then over the data ranks: all-reduce, or
  // reduce-scatter into `shard` under ZeRO. `after`: an instruction to wait for, or kNone.
  void reduce(const Bucket& bucket, const Gathered& grads, std::uint32_t shard,
              std::uint32_t after);
  // Fills `full` from the data ranks' shards.
  std::uint32_t gather(const Bucket& bucket, std::uint32_t full, std::uint32_t after);
  // Global norm, clipping (0: none) and the optimizer on what this rank owns.
  void step(std::span<const Bucket> buckets, double largest_norm);

 private:
  void clip(std::span<const Bucket> buckets, double largest_norm);
  void update(const Bucket& bucket);
  std::uint32_t owned_grads(const Bucket& bucket) const {
    return d_.zero > 0 ? bucket.grad_shard : bucket.grads;
  }
  std::uint32_t owned_params(const Bucket& bucket) const {
    return d_.zero > 0 ? bucket.param_shard : bucket.params;
  }

  Emitter& e_;
  const Dims& d_;
  bool tied_across_stages_;
};

}  // namespace trainyard
