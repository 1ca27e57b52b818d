#pragma once
#include "core/plan/gradient_sync.h"
#include "core/plan/stage_parameters.h"

namespace trainyard {

// Stamped waits of a body on the last kernel before the body.
inline constexpr std::uint32_t kPrevious = kNone - 1;

// Which of a chunk's micro-batches a body is for: the first and last to go backward also clear
// and reduce gradients.
struct Role {
  bool first = false, last = false;
};

// The passes of one chunk for one micro-batch.
struct ChunkBodies {
  std::vector<BufferSpec> locals;
  PassBody forward, backward, weight_grad;
  std::uint32_t input = kNone, output = kNone;            // residual stream, received and sent
  std::uint32_t output_grad = kNone, input_grad = kNone;  // its gradient, received and sent
};

struct StageBuffers {
  std::uint32_t tokens = kNone, loss = kNone;
};

// Emits a chunk's passes: layers to kernels and collectives, recomputation, and the parameter and
// gradient traffic of ZeRO that happens within passes.
class ChunkEmitter {
 public:
  ChunkEmitter(Emitter& emitter, const Dims& dims, const StageParameters& parameters,
               StageBuffers buffers, SyncEmitter& sync)
      : e_(emitter), d_(dims), parameters_(parameters), buffers_(buffers), sync_(sync) {}

  // `single`: the step has one micro-batch.
  ChunkBodies emit(std::int32_t chunk, const ChunkShape& shape, Role role, bool single);

 private:
  struct State;
  void forward(State& s);
  void backward(State& s);
  void weight_grad(State& s);
  void fill(State& s, TensorRef ref, std::uint32_t& value, std::uint32_t& grad);
  EndWeights embedding_weights(State& s);
  EndWeights head_weights(State& s);
  LayerWeights layer_weights(State& s, std::int64_t layer);
  void prefetch(State& s, std::int64_t layer);
  const Gathered& values(State& s, std::int32_t bucket);
  const Gathered& grads(State& s, std::int32_t bucket);
  void gather(State& s, std::int32_t bucket);
  void release(State& s, std::int32_t bucket);
  void reduce(const State& s, const Bucket& bucket, const Gathered& grads);

  Emitter& e_;
  const Dims& d_;
  const StageParameters& parameters_;
  StageBuffers buffers_;
  SyncEmitter& sync_;
};

}  // namespace trainyard
