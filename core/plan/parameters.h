#pragma once
#include <array>
#include <string>
#include <vector>

#include "core/plan/dims.h"
#include "core/plan/emitter.h"

namespace trainyard {

// The tensors a layer can have; those a model lacks have zero elements.
enum class Weight : std::uint8_t {
  norm1,  // [2 or 1, hidden]: gamma and beta
  qkv,    // [hidden, qkv], or [hidden, qkv + fc1] in a fused block
  qkv_bias,
  proj,  // [query, hidden], or [query + ffn, hidden] in a fused block
  proj_bias,
  norm2,
  fc1,
  fc1_bias,
  fc2,
  fc2_bias,
};
inline constexpr int kLayerWeights = 10;

struct Tensor {
  std::string name;
  std::int64_t rows = 0, columns = 0;  // on this rank
  bool replicated = false;             // the same on all tensor ranks
  std::int64_t elements() const { return rows * columns; }
};

// Parameters that are reduced, stepped and gathered together, in one flat buffer.
struct Bucket {
  std::string name;
  std::vector<Tensor> tensors;
  std::int64_t elements = 0;
  std::int64_t padded = 0;      // to a multiple of the data ranks when sharded
  std::int64_t replicated = 0;  // elements of replicated tensors
  bool embedding = false;       // tied table: exchanged between first and last stage

  std::uint32_t params = kNone, grads = kNone;            // flat; params is kNone under ZeRO-3
  std::uint32_t param_shard = kNone, grad_shard = kNone;  // ZeRO only
  std::uint32_t master = kNone, moment1 = kNone, moment2 = kNone;
  std::vector<std::uint32_t> param_views, grad_views;  // a tensor each; kNone when empty

  std::int64_t stepped = 0;  // elements this rank's optimizer owns
};

// Creates the bucket's buffers: bf16/fp16 parameters 2 bytes, fp32 gradients 4, fp32 master and
// two moments 12 (arXiv 1910.02054 section 3); ZeRO-1 shards the optimizer, ZeRO-2 also keeps
// gradients only from their first use to their reduction, ZeRO-3 also shards parameters.
Bucket make_bucket(Emitter& emitter, const Dims& dims, std::string name,
                   std::vector<Tensor> tensors);

// A buffer of all the bucket's parameters for one pass (ZeRO-3), with a view a tensor.
struct Gathered {
  std::uint32_t flat = kNone;
  std::vector<std::uint32_t> views;
};
Gathered gathered_parameters(Emitter& emitter, const Dims& dims, const Bucket& bucket);
Gathered pass_gradients(Emitter& emitter, const Bucket& bucket);

// Where each tensor starts in its bucket's flat buffer, in elements. Replicated tensors lie first,
// so that their gradients are one contiguous view.
std::vector<std::int64_t> tensor_offsets(const std::vector<Tensor>& tensors);

std::vector<Tensor> layer_tensors(const Dims& dims, std::int64_t layer);

}  // namespace trainyard
