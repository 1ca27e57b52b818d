#pragma once
#include <stddef.h>

#include "tests/benchmarks/plain_gpt2.h"

// The layers of plain_gpt2, each a few loops. Matrices are row after row.
typedef struct {
  size_t rows, columns;
} Rows;
typedef struct {
  size_t tokens, in, out;
} Dense;
typedef struct {
  float* dx;
  const float *dy, *x;
} DenseGrads;
typedef struct {
  const float *scales, *stats;  // gamma and beta; mean and 1 / deviation of each row
} Normed;
typedef struct {
  float *dx, *dscales;
} NormGrads;
typedef struct {
  float* dqkv;
  const float* dout;
} AttentionGrads;
typedef struct {
  float *values, *grads, *moment1, *moment2;
} AdamState;
typedef struct {
  size_t elements;
  float scale;  // of the gradients
  PlainAdamW adam;
} Update;

// y = x W^T + bias with W [out, in]; bias may be null. dx = dy W. dW += dy^T x.
void dense_forward(float* y, const float* x, const float* w, const float* bias, Dense d);
void dense_input_grad(float* dx, const float* dy, const float* w, Dense d);
void dense_weight_grad(float* dw, const float* dy, const float* x, Dense d);
void column_sums(float* to, const float* x, Rows rows);  // to += sums of columns

// `weights`: [batch, heads, sequence, sequence], kept for the backward pass.
void attention_forward(float* out, float* weights, const float* qkv, PlainShape s);
void attention_backward(AttentionGrads grads, const float* qkv, const float* weights, PlainShape s);

void norm_forward(float* y, float* stats, const float* x, const float* scales, Rows rows);
// Adds to dx and to dscales.
void norm_backward(NormGrads grads, const float* dy, const float* x, Normed normed, Rows rows);
void gelu_forward(float* y, const float* x, size_t n);
void gelu_backward(float* dx, const float* x, size_t n);  // dx: dy before
void add(float* y, const float* x, size_t n);             // y += x
void embed(float* out, const int* tokens, const float* table, const float* positions, PlainShape s);
void embed_backward(float* dtable, float* dpositions, const int* tokens, const float* dout,
                    PlainShape s);
// The mean loss; logits [tokens, columns] become their gradients.
float loss_and_gradient(float* logits, const int* tokens, size_t columns, PlainShape s);

float sum_of_squares(const float* x, size_t n);
void adamw(AdamState state, Update u);
