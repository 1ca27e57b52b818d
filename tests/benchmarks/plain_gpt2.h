#pragma once
#ifdef __cplusplus
extern "C" {
#endif

// A training step of GPT-2 in plain C loops with OpenMP, fp32 and without dropout: what the CPU
// backend's speed is compared with. One batch, one process.
typedef struct {
  int layers, hidden, heads, vocab, sequence, batch;  // batch * sequence is a multiple of 8
  int threads;
} PlainShape;

typedef enum {
  kPlainEmbedding,  // [vocab padded to a multiple of 8, hidden]; also the output projection
  kPlainPositions,  // [sequence, hidden]
  kPlainFinalNorm,  // gamma, beta
  kPlainNorm1,      // from here on in each layer; weights are [out, in]
  kPlainQkv,
  kPlainQkvBias,
  kPlainProj,
  kPlainProjBias,
  kPlainNorm2,
  kPlainFc1,
  kPlainFc1Bias,
  kPlainFc2,
  kPlainFc2Bias,
  kPlainTensors
} PlainTensor;

typedef struct {
  float learning_rate, beta1, beta2, epsilon, weight_decay, clip;
  int update;  // from 1
} PlainAdamW;

// What the seconds of a step went into.
typedef enum {
  kPlainDense,
  kPlainAttention,
  kPlainElementwise,  // norms, GELU, residuals, embedding
  kPlainLoss,
  kPlainOptimizer,
  kPlainParts
} PlainPart;

typedef struct PlainModel PlainModel;

PlainModel* plain_model_new(PlainShape shape);
void plain_model_free(PlainModel* model);
// Where a weight is; `layer` is 0 for the first three.
float* plain_tensor(PlainModel* model, PlainTensor tensor, int layer);
// Forward, backward, clipping and AdamW on `tokens` [batch, sequence + 1]; the mean loss.
float plain_step(PlainModel* model, const int* tokens, PlainAdamW adam);
const double* plain_seconds(const PlainModel* model);  // by part, of all steps so far

#ifdef __cplusplus
}
#endif
