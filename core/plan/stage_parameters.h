#pragma once
#include <vector>

#include "core/plan/ends.h"
#include "core/plan/parameters.h"

namespace trainyard {

// What one model chunk of a stage holds.
struct ChunkShape {
  std::int64_t first_layer = 0, layers = 0;
  bool embeds = false;  // the model's first chunk
  bool heads = false;   // the model's last chunk
};

std::vector<ChunkShape> stage_chunks(const Job& job, std::int32_t stage);

// A tensor by bucket and place in it; bucket -1: the chunk has none.
struct TensorRef {
  std::int32_t bucket = -1, tensor = 0;
};

struct ChunkParameters {
  std::vector<TensorRef> layers;  // the first tensor of each layer
  TensorRef table, positions, norm, head;
  std::vector<std::int32_t> buckets;  // synchronised with this chunk, in backward order
};

// The parameters of a stage. A bucket is a model chunk, or a layer under ZeRO-2 and 3. A tied
// table is a bucket of its own, since first and last stage exchange its gradient.
struct StageParameters {
  std::vector<Bucket> buckets;
  std::vector<ChunkParameters> chunks;
  std::int32_t tied_bucket = -1;
};
StageParameters stage_parameters(Emitter& emitter, const Dims& dims,
                                 const std::vector<ChunkShape>& chunks);

}  // namespace trainyard
