#pragma once
#include "core/plan/chunk.h"
#include "core/plan/stage.h"

namespace trainyard {

// What a stage does once a step, before and after its pipeline passes.
class StageEnds {
 public:
  // What the emission of a stage shares.
  struct Shared {
    Emitter& emitter;
    const Dims& dims;
    SyncEmitter& sync;
  };
  StageEnds(const Shared& shared, const Job& job, const StageParameters& parameters,
            const std::vector<ChunkShape>& shapes);

  const StageBuffers& buffers() const { return buffers_; }
  // Training data, cleared gradients; with overlap.prefetch the first parameters are gathered
  // while data loads.
  PassBody setup(Purpose purpose);
  // The parameters of a chunk, gathered just before its first forward pass (overlap.data).
  PassBody gather_before_forward(std::int32_t chunk);
  // Reductions that did not overlap, loss, norm, optimizer, and gathers that will not overlap.
  PassBody finish();
  // The loss alone.
  PassBody finish_evaluation();

 private:
  void load_data();
  void clear_gradients();
  void reduce_loss();
  void gather(std::int32_t bucket, std::uint32_t after);
  bool gathers_early() const;

  Emitter& e_;
  const Dims& d_;
  const Job& job_;
  const StageParameters& parameters_;
  SyncEmitter& sync_;
  StageBuffers buffers_;
  std::uint32_t staged_ = kNone;  // the next step's tokens, in host memory
  bool reads_tokens_ = false, heads_ = false;
  std::vector<bool> gathered_;  // by bucket
};

}  // namespace trainyard
