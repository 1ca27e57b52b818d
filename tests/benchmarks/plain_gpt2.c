#include "tests/benchmarks/plain_gpt2.h"

#include <assert.h>
#include <math.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>

#include "tests/benchmarks/plain_layers.h"

// What a layer keeps for its backward pass, each [tokens, …].
typedef struct {
  float *norm1, *stats1, *qkv, *weights, *context, *middle, *norm2, *stats2, *fc1, *gelu, *out;
} Kept;

struct PlainModel {
  PlainShape shape;
  size_t tokens, padded, parameters;
  size_t offsets[kPlainTensors], layer_size;
  AdamState p;
  Kept* kept;
  float *embedded, *normed, *stats, *logits;
  float *dnormed, *dresidual, *dwide, *dqkv, *dcontext;
  double seconds[kPlainParts], since;
};

static float* zeros(size_t n) {
  float* memory = aligned_alloc(64, (n * sizeof(float) + 63) / 64 * 64);
  assert(memory != NULL);
  memset(memory, 0, n * sizeof(float));
  return memory;
}

static size_t tensor_size(const PlainModel* m, PlainTensor tensor) {
  const size_t c = (size_t)m->shape.hidden;
  const size_t sizes[kPlainTensors] = {m->padded * c,
                                       (size_t)m->shape.sequence * c,
                                       2 * c,
                                       2 * c,
                                       3 * c * c,
                                       3 * c,
                                       c * c,
                                       c,
                                       2 * c,
                                       4 * c * c,
                                       4 * c,
                                       4 * c * c,
                                       c};
  return sizes[tensor];
}

static void place_tensors(PlainModel* m) {
  size_t at = 0;
  for (int t = 0; t < kPlainTensors; ++t) {
    m->offsets[t] = at;
    at += tensor_size(m, t);
  }
  m->layer_size = at - m->offsets[kPlainNorm1];
  m->parameters = m->offsets[kPlainNorm1] + m->layer_size * (size_t)m->shape.layers;
  m->p = (AdamState){zeros(m->parameters), zeros(m->parameters), zeros(m->parameters),
                     zeros(m->parameters)};
}

static size_t offset_of(const PlainModel* m, PlainTensor tensor, int layer) {
  return m->offsets[tensor] + m->layer_size * (size_t)layer;
}
static const float* weight(const PlainModel* m, PlainTensor tensor, int layer) {
  return m->p.values + offset_of(m, tensor, layer);
}
static float* grad(const PlainModel* m, PlainTensor tensor, int layer) {
  return m->p.grads + offset_of(m, tensor, layer);
}

PlainModel* plain_model_new(PlainShape shape) {
  PlainModel* m = calloc(1, sizeof(PlainModel));
  assert(m != NULL && shape.batch * shape.sequence % 8 == 0);
  m->shape = shape;
  omp_set_num_threads(shape.threads);
  m->tokens = (size_t)shape.batch * (size_t)shape.sequence;
  m->padded = ((size_t)shape.vocab + 7) / 8 * 8;
  place_tensors(m);
  const size_t n = m->tokens, c = (size_t)shape.hidden;
  m->kept = calloc((size_t)shape.layers, sizeof(Kept));
  for (int l = 0; l < shape.layers; ++l)
    m->kept[l] = (Kept){zeros(n * c),     zeros(n * 2),
                        zeros(n * 3 * c), zeros(n * (size_t)(shape.heads * shape.sequence)),
                        zeros(n * c),     zeros(n * c),
                        zeros(n * c),     zeros(n * 2),
                        zeros(n * 4 * c), zeros(n * 4 * c),
                        zeros(n * c)};
  m->embedded = zeros(n * c);
  m->normed = zeros(n * c);
  m->stats = zeros(n * 2);
  m->logits = zeros(n * m->padded);
  m->dnormed = zeros(n * c);
  m->dresidual = zeros(n * c);
  m->dwide = zeros(n * 4 * c);
  m->dqkv = zeros(n * 3 * c);
  m->dcontext = zeros(n * c);
  return m;
}

void plain_model_free(PlainModel* m) {
  for (int l = 0; l < m->shape.layers; ++l) {
    float** kept = (float**)&m->kept[l];
    for (size_t i = 0; i < sizeof(Kept) / sizeof(float*); ++i) free(kept[i]);
  }
  float* buffers[] = {m->p.values, m->p.grads, m->p.moment1, m->p.moment2, m->embedded,
                      m->normed,   m->stats,   m->logits,    m->dnormed,   m->dresidual,
                      m->dwide,    m->dqkv,    m->dcontext};
  for (size_t i = 0; i < sizeof(buffers) / sizeof(buffers[0]); ++i) free(buffers[i]);
  free(m->kept);
  free(m);
}

float* plain_tensor(PlainModel* m, PlainTensor tensor, int layer) {
  return m->p.values + offset_of(m, tensor, layer);
}
const double* plain_seconds(const PlainModel* m) { return m->seconds; }

// Books the time since the last call on a part.
static void lap(PlainModel* m, PlainPart part) {
  const double now = omp_get_wtime();
  m->seconds[part] += now - m->since;
  m->since = now;
}

static void layer_forward(PlainModel* m, int l, const float* in) {
  const size_t n = m->tokens, c = (size_t)m->shape.hidden;
  const Kept k = m->kept[l];
  norm_forward(k.norm1, k.stats1, in, weight(m, kPlainNorm1, l), (Rows){n, c});
  lap(m, kPlainElementwise);
  dense_forward(k.qkv, k.norm1, weight(m, kPlainQkv, l), weight(m, kPlainQkvBias, l),
                (Dense){n, c, 3 * c});
  lap(m, kPlainDense);
  attention_forward(k.context, k.weights, k.qkv, m->shape);
  lap(m, kPlainAttention);
  dense_forward(k.middle, k.context, weight(m, kPlainProj, l), weight(m, kPlainProjBias, l),
                (Dense){n, c, c});
  lap(m, kPlainDense);
  add(k.middle, in, n * c);
  norm_forward(k.norm2, k.stats2, k.middle, weight(m, kPlainNorm2, l), (Rows){n, c});
  lap(m, kPlainElementwise);
  dense_forward(k.fc1, k.norm2, weight(m, kPlainFc1, l), weight(m, kPlainFc1Bias, l),
                (Dense){n, c, 4 * c});
  lap(m, kPlainDense);
  gelu_forward(k.gelu, k.fc1, n * 4 * c);
  lap(m, kPlainElementwise);
  dense_forward(k.out, k.gelu, weight(m, kPlainFc2, l), weight(m, kPlainFc2Bias, l),
                (Dense){n, 4 * c, c});
  lap(m, kPlainDense);
  add(k.out, k.middle, n * c);
  lap(m, kPlainElementwise);
}

// y = x W^T + b backwards: dx, and dW and db added to.
static void dense_backward(PlainModel* m, PlainTensor tensor, int l, DenseGrads g, Dense d) {
  dense_input_grad(g.dx, g.dy, weight(m, tensor, l), d);
  dense_weight_grad(grad(m, tensor, l), g.dy, g.x, d);
  if (tensor != kPlainEmbedding) column_sums(grad(m, tensor + 1, l), g.dy, (Rows){d.tokens, d.out});
  lap(m, kPlainDense);
}

// m->dresidual: the gradient of what the layer gives, then of what it is given.
static void layer_backward(PlainModel* m, int l, const float* in) {
  const size_t n = m->tokens, c = (size_t)m->shape.hidden;
  const Kept k = m->kept[l];
  float* d = m->dresidual;
  dense_backward(m, kPlainFc2, l, (DenseGrads){m->dwide, d, k.gelu}, (Dense){n, 4 * c, c});
  gelu_backward(m->dwide, k.fc1, n * 4 * c);
  lap(m, kPlainElementwise);
  dense_backward(m, kPlainFc1, l, (DenseGrads){m->dnormed, m->dwide, k.norm2},
                 (Dense){n, c, 4 * c});
  norm_backward((NormGrads){d, grad(m, kPlainNorm2, l)}, m->dnormed, k.middle,
                (Normed){weight(m, kPlainNorm2, l), k.stats2}, (Rows){n, c});
  lap(m, kPlainElementwise);
  dense_backward(m, kPlainProj, l, (DenseGrads){m->dcontext, d, k.context}, (Dense){n, c, c});
  attention_backward((AttentionGrads){m->dqkv, m->dcontext}, k.qkv, k.weights, m->shape);
  lap(m, kPlainAttention);
  dense_backward(m, kPlainQkv, l, (DenseGrads){m->dnormed, m->dqkv, k.norm1}, (Dense){n, c, 3 * c});
  norm_backward((NormGrads){d, grad(m, kPlainNorm1, l)}, m->dnormed, in,
                (Normed){weight(m, kPlainNorm1, l), k.stats1}, (Rows){n, c});
  lap(m, kPlainElementwise);
}

static void update(PlainModel* m, PlainAdamW adam) {
  const float norm = sqrtf(sum_of_squares(m->p.grads, m->parameters));
  const float scale = adam.clip > 0 && norm > adam.clip ? adam.clip / norm : 1;
  for (int l = 0; l < m->shape.layers; ++l)
    for (int t = l == 0 ? 0 : kPlainNorm1; t < kPlainTensors; ++t) {
      const int kept = t == kPlainFinalNorm || t == kPlainNorm1 || t == kPlainNorm2 ||
                       t == kPlainQkvBias || t == kPlainProjBias || t == kPlainFc1Bias ||
                       t == kPlainFc2Bias;
      const size_t at = offset_of(m, t, l);
      PlainAdamW a = adam;
      if (kept) a.weight_decay = 0;
      adamw((AdamState){m->p.values + at, m->p.grads + at, m->p.moment1 + at, m->p.moment2 + at},
            (Update){tensor_size(m, t), scale, a});
    }
}

float plain_step(PlainModel* m, const int* tokens, PlainAdamW adam) {
  const size_t n = m->tokens, c = (size_t)m->shape.hidden;
  const Dense head = {n, c, m->padded};
  m->since = omp_get_wtime();
  memset(m->p.grads, 0, m->parameters * sizeof(float));
  lap(m, kPlainOptimizer);
  embed(m->embedded, tokens, weight(m, kPlainEmbedding, 0), weight(m, kPlainPositions, 0),
        m->shape);
  const float* in = m->embedded;
  for (int l = 0; l < m->shape.layers; ++l) {
    layer_forward(m, l, in);
    in = m->kept[l].out;
  }
  norm_forward(m->normed, m->stats, in, weight(m, kPlainFinalNorm, 0), (Rows){n, c});
  lap(m, kPlainElementwise);
  dense_forward(m->logits, m->normed, weight(m, kPlainEmbedding, 0), NULL, head);
  lap(m, kPlainDense);
  const float loss = loss_and_gradient(m->logits, tokens, m->padded, m->shape);
  lap(m, kPlainLoss);

  dense_backward(m, kPlainEmbedding, 0, (DenseGrads){m->dnormed, m->logits, m->normed}, head);
  memset(m->dresidual, 0, n * c * sizeof(float));
  norm_backward((NormGrads){m->dresidual, grad(m, kPlainFinalNorm, 0)}, m->dnormed, in,
                (Normed){weight(m, kPlainFinalNorm, 0), m->stats}, (Rows){n, c});
  lap(m, kPlainElementwise);
  for (int l = m->shape.layers - 1; l >= 0; --l)
    layer_backward(m, l, l > 0 ? m->kept[l - 1].out : m->embedded);
  embed_backward(grad(m, kPlainEmbedding, 0), grad(m, kPlainPositions, 0), tokens, m->dresidual,
                 m->shape);
  lap(m, kPlainElementwise);
  update(m, adam);
  lap(m, kPlainOptimizer);
  return loss;
}
