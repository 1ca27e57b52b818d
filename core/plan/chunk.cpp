#include "core/plan/chunk.h"

#include <map>

#include "core/error.h"

namespace trainyard {

// What the emission of one chunk body remembers from instruction to instruction.
struct ChunkEmitter::State {
  const ChunkParameters& parameters;
  const ChunkShape& shape;
  Role role;
  bool single;
  ChunkBodies bodies;
  LinearEmitter linear;
  LayerEmitter layer;
  EndsEmitter ends;

  bool in_backward = false;
  EmbeddingSaved embedding;
  std::vector<LayerSaved> layers;
  HeadSaved head;
  std::map<std::int32_t, Gathered> values, grads;  // by bucket; values of the current pass
  std::vector<std::pair<std::int32_t, Gathered>> to_reduce;  // after split weight gradients

  State(ChunkEmitter& c, std::int32_t chunk, const ChunkShape& s, Role r, bool one)
      : parameters(c.parameters_.chunks[chunk]),
        shape(s),
        role(r),
        single(one),
        linear(c.e_, c.d_),
        layer(c.e_, c.d_, linear),
        ends(c.e_, c.d_, linear, layer) {}
};

ChunkBodies ChunkEmitter::emit(std::int32_t chunk, const ChunkShape& shape, Role role,
                               bool single) {
  State s(*this, chunk, shape, role, single);
  e_.use_locals(s.bodies.locals);
  e_.use_body(s.bodies.forward);
  forward(s);
  s.values.clear();
  s.in_backward = true;
  e_.use_body(s.bodies.backward);
  backward(s);
  if (d_.split_backward) {
    e_.use_body(s.bodies.weight_grad);
    weight_grad(s);
  }
  return std::move(s.bodies);
}

void ChunkEmitter::forward(State& s) {
  const NewBuffer residual{"stage_input", d_.shard_tokens,          d_.hidden(),
                           d_.dtype,      MemoryClass::activations, {d_.tokens, d_.hidden()}};
  std::uint32_t x = kNone;
  if (s.shape.embeds) {
    s.embedding = s.ends.embed(embedding_weights(s), buffers_.tokens);
    x = s.embedding.output;
  } else {
    x = s.bodies.input = e_.local(residual);
  }
  for (std::int64_t i = 0; i < s.shape.layers; ++i) {
    const LayerWeights weights = layer_weights(s, i);
    prefetch(s, i + 1);
    s.layers.push_back(s.layer.forward(weights, x));
    x = s.layers.back().output;
  }
  if (s.shape.heads)
    s.head = s.ends.loss(head_weights(s), x, buffers_.tokens, buffers_.loss);
  else
    s.bodies.output = x;
}

void ChunkEmitter::backward(State& s) {
  std::uint32_t grad = kNone;
  if (s.shape.heads) {
    grad = s.ends.loss_backward(head_weights(s), s.head, buffers_.tokens);
  } else {
    grad = s.bodies.output_grad = e_.local({"stage_output_grad",
                                            d_.shard_tokens,
                                            d_.hidden(),
                                            d_.dtype,
                                            MemoryClass::communication,
                                            {d_.tokens, d_.hidden()}});
  }
  for (std::int64_t i = s.shape.layers - 1; i >= 0; --i) {
    const LayerWeights weights = layer_weights(s, i);
    if (d_.overlap.prefetch) prefetch(s, i - 1);
    LayerSaved& saved = s.layers[i];
    if (d_.recompute == Recompute::full) saved = s.layer.forward(weights, saved.norm1.input);
    grad = s.layer.backward(weights, saved, grad);
    prefetch(s, i - 1);  // still before this layer's gradients leave
    if (d_.zero >= 2) release(s, s.parameters.layers[i].bucket);
  }
  if (s.shape.embeds)
    s.ends.embed_backward(embedding_weights(s), s.embedding, buffers_.tokens, grad);
  else
    s.bodies.input_grad = grad;
  for (const std::int32_t bucket : s.parameters.buckets) release(s, bucket);
  if (d_.zero == 3) release(s, parameters_.tied_bucket);
}

void ChunkEmitter::weight_grad(State& s) {
  s.linear.weight_gradients();
  for (const auto& [bucket, grads] : s.to_reduce) reduce(s, parameters_.buckets[bucket], grads);
}

// Under ZeRO-3 a layer's parameters are gathered one layer ahead if data traffic may overlap; in
// the backward pass only with prefetch (PyTorch FSDP's BACKWARD_PRE), else between two layers
// (BACKWARD_POST).
void ChunkEmitter::prefetch(State& s, std::int64_t layer) {
  if (d_.zero < 3 || !d_.overlap.data || layer < 0 || layer >= s.shape.layers) return;
  gather(s, s.parameters.layers[layer].bucket);
}

void ChunkEmitter::gather(State& s, std::int32_t bucket) {
  if (s.values.contains(bucket)) return;
  const Bucket& b = parameters_.buckets[bucket];
  const std::uint32_t after = e_.last_kernel() == kNone ? kPrevious : e_.last_kernel();
  Gathered g = gathered_parameters(e_, d_, b);
  sync_.gather(b, g.flat, after);
  s.values.emplace(bucket, std::move(g));
}

const Gathered& ChunkEmitter::values(State& s, std::int32_t bucket) {
  const Bucket& b = parameters_.buckets[bucket];
  if (d_.zero < 3)
    s.values.try_emplace(bucket, Gathered{b.params, b.param_views});
  else
    gather(s, bucket);
  return s.values.at(bucket);
}

const Gathered& ChunkEmitter::grads(State& s, std::int32_t bucket) {
  const auto found = s.grads.find(bucket);
  if (found != s.grads.end()) return found->second;
  const Bucket& b = parameters_.buckets[bucket];
  Gathered g = d_.zero < 3 ? Gathered{b.grads, b.grad_views} : pass_gradients(e_, b);
  const bool tied = bucket == parameters_.tied_bucket && d_.zero < 3;
  if (d_.zero == 3 || (d_.zero == 2 && s.role.first && !tied)) sync_.zero(b, g.flat);
  return s.grads.emplace(bucket, std::move(g)).first->second;
}

// A bucket's gradients are complete for this micro-batch: reduce them now if this is the last
// one, or each time under ZeRO-3, which keeps no full gradients between passes.
void ChunkEmitter::release(State& s, std::int32_t bucket) {
  const auto found = s.grads.find(bucket);
  const bool now = d_.zero == 3 || (d_.overlap.data && s.role.last);
  if (found == s.grads.end() || !now) return;
  if (s.linear.has_put_off())
    s.to_reduce.emplace_back(bucket, found->second);
  else
    reduce(s, parameters_.buckets[bucket], found->second);
  s.grads.erase(found);
}

void ChunkEmitter::reduce(const State& s, const Bucket& b, const Gathered& grads) {
  const std::uint32_t after = d_.overlap.data ? kNone : e_.last_kernel();
  if (d_.zero < 3 || s.single) {
    sync_.reduce(b, grads, b.grad_shard, after);
    return;
  }
  const std::uint32_t reduced =
      e_.local({"reduced_grads", 1, b.stepped, DType::fp32, MemoryClass::communication});
  sync_.reduce(b, grads, reduced, after);
  e_.kernel(streaming(KernelKind::add, {b.stepped, 1}, {8, 4}, DType::fp32),
            {updates(b.grad_shard), reads(reduced)});
}

LayerWeights ChunkEmitter::layer_weights(State& s, std::int64_t layer) {
  const TensorRef ref = s.parameters.layers[layer];
  LayerWeights w{.layer = s.shape.first_layer + layer};
  const Gathered& value = values(s, ref.bucket);
  for (int i = 0; i < kLayerWeights; ++i) w.value[i] = value.views[ref.tensor + i];
  if (!s.in_backward) return w;
  const Gathered& grad = grads(s, ref.bucket);
  for (int i = 0; i < kLayerWeights; ++i) w.grad[i] = grad.views[ref.tensor + i];
  return w;
}

void ChunkEmitter::fill(State& s, TensorRef ref, std::uint32_t& value, std::uint32_t& grad) {
  if (ref.bucket < 0) return;
  value = values(s, ref.bucket).views[ref.tensor];
  if (s.in_backward) grad = grads(s, ref.bucket).views[ref.tensor];
}

EndWeights ChunkEmitter::embedding_weights(State& s) {
  EndWeights w;
  fill(s, s.parameters.table, w.table, w.table_grad);
  fill(s, s.parameters.positions, w.positions, w.positions_grad);
  return w;
}

EndWeights ChunkEmitter::head_weights(State& s) {
  EndWeights w;
  fill(s, s.parameters.norm, w.norm, w.norm_grad);
  fill(s, s.parameters.head, w.head, w.head_grad);
  return w;
}

}  // namespace trainyard
