#include "tests/benchmarks/plain_layers.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { kTile = 8 };  // rows of a product that share what is loaded

void dense_forward(float* y, const float* x, const float* w, const float* bias, Dense d) {
#pragma omp parallel for
  for (size_t t = 0; t < d.tokens; t += kTile)
    for (size_t o = 0; o < d.out; ++o) {
      float sums[kTile] = {0};
      const float* row = w + o * d.in;
      for (size_t i = 0; i < d.in; ++i)
        for (size_t u = 0; u < kTile; ++u) sums[u] += x[(t + u) * d.in + i] * row[i];
      for (size_t u = 0; u < kTile; ++u)
        y[(t + u) * d.out + o] = sums[u] + (bias != NULL ? bias[o] : 0);
    }
}

void dense_input_grad(float* dx, const float* dy, const float* w, Dense d) {
  enum { kTokens = 64 };
#pragma omp parallel for
  for (size_t first = 0; first < d.tokens; first += kTokens) {
    const size_t last = first + kTokens < d.tokens ? first + kTokens : d.tokens;
    memset(dx + first * d.in, 0, (last - first) * d.in * sizeof(float));
    for (size_t o = 0; o < d.out; o += kTile)
      for (size_t t = first; t < last; ++t) {
        float* restrict to = dx + t * d.in;
        const float *from = dy + t * d.out + o, *rows = w + o * d.in;
        for (size_t i = 0; i < d.in; ++i) {
          float sum = 0;
          for (size_t u = 0; u < kTile; ++u) sum += from[u] * rows[u * d.in + i];
          to[i] += sum;
        }
      }
  }
}

void dense_weight_grad(float* dw, const float* dy, const float* x, Dense d) {
  enum { kOutputs = 64 };
#pragma omp parallel for
  for (size_t first = 0; first < d.out; first += kOutputs) {
    const size_t last = first + kOutputs < d.out ? first + kOutputs : d.out;
    for (size_t t = 0; t < d.tokens; t += kTile)
      for (size_t o = first; o < last; ++o) {
        float* restrict to = dw + o * d.in;
        const float* rows = x + t * d.in;
        float factors[kTile];
        for (size_t u = 0; u < kTile; ++u) factors[u] = dy[(t + u) * d.out + o];
        for (size_t i = 0; i < d.in; ++i) {
          float sum = 0;
          for (size_t u = 0; u < kTile; ++u) sum += factors[u] * rows[u * d.in + i];
          to[i] += sum;
        }
      }
  }
}

void column_sums(float* to, const float* x, Rows r) {
  enum { kColumns = 256 };
#pragma omp parallel for
  for (size_t first = 0; first < r.columns; first += kColumns) {
    const size_t last = first + kColumns < r.columns ? first + kColumns : r.columns;
    for (size_t i = 0; i < r.rows; ++i)
      for (size_t j = first; j < last; ++j) to[j] += x[i * r.columns + j];
  }
}

void attention_forward(float* out, float* weights, const float* qkv, PlainShape s) {
  const size_t c = (size_t)s.hidden, heads = (size_t)s.heads, n = (size_t)s.sequence;
  const size_t dim = c / heads;
  const float scale = 1 / sqrtf((float)dim);
#pragma omp parallel for collapse(3)
  for (size_t b = 0; b < (size_t)s.batch; ++b)
    for (size_t h = 0; h < heads; ++h)
      for (size_t t = 0; t < n; ++t) {
        const float *sequence = qkv + b * n * 3 * c + h * dim, *q = sequence + t * 3 * c;
        float *p = weights + ((b * heads + h) * n + t) * n, *to = out + (b * n + t) * c + h * dim;
        float most = -1e30f, total = 0;
        for (size_t j = 0; j <= t; ++j) {
          const float* k = sequence + j * 3 * c + c;
          float dot = 0;
          for (size_t i = 0; i < dim; ++i) dot += q[i] * k[i];
          p[j] = dot * scale;
          if (p[j] > most) most = p[j];
        }
        for (size_t j = 0; j <= t; ++j) {
          p[j] = expf(p[j] - most);
          total += p[j];
        }
        for (size_t i = 0; i < dim; ++i) to[i] = 0;
        for (size_t j = 0; j <= t; ++j) {
          const float* v = sequence + j * 3 * c + 2 * c;
          p[j] /= total;
          for (size_t i = 0; i < dim; ++i) to[i] += p[j] * v[i];
        }
      }
}

// A head of a sequence: where its first query and output are, and what goes with them.
typedef struct {
  const float *q, *weights, *dout;
  float* dq;
  size_t tokens, width, dim;
} Head;

// Adds query t's part to the gradients of the head; `dots` has room for a number a key.
static void query_backward(Head h, size_t t, float* dots) {
  const size_t c = h.width, row = 3 * c;
  const float scale = 1 / sqrtf((float)h.dim);
  const float *q = h.q + t * row, *p = h.weights + t * h.tokens, *dout = h.dout + t * c;
  float mean = 0;
  for (size_t j = 0; j <= t; ++j) {
    const float* v = h.q + j * row + 2 * c;
    float* restrict dv = h.dq + j * row + 2 * c, dot = 0;
    for (size_t i = 0; i < h.dim; ++i) {
      dot += dout[i] * v[i];
      dv[i] += p[j] * dout[i];
    }
    dots[j] = dot;
    mean += p[j] * dot;
  }
  float* restrict dq = h.dq + t * row;
  for (size_t j = 0; j <= t; ++j) {
    const float ds = p[j] * (dots[j] - mean) * scale, *k = h.q + j * row + c;
    float* restrict dk = h.dq + j * row + c;
    for (size_t i = 0; i < h.dim; ++i) {
      dq[i] += ds * k[i];
      dk[i] += ds * q[i];
    }
  }
}

void attention_backward(AttentionGrads g, const float* qkv, const float* weights, PlainShape s) {
  const size_t c = (size_t)s.hidden, heads = (size_t)s.heads, n = (size_t)s.sequence;
  memset(g.dqkv, 0, (size_t)s.batch * n * 3 * c * sizeof(float));
#pragma omp parallel for collapse(2)
  for (size_t b = 0; b < (size_t)s.batch; ++b)
    for (size_t h = 0; h < heads; ++h) {
      const size_t dim = c / heads, first = b * n * 3 * c + h * dim;
      const Head head = {qkv + first,
                         weights + (b * heads + h) * n * n,
                         g.dout + b * n * c + h * dim,
                         g.dqkv + first,
                         n,
                         c,
                         dim};
      float* dots = malloc(n * sizeof(float));
      for (size_t t = 0; t < n; ++t) query_backward(head, t, dots);
      free(dots);
    }
}

void norm_forward(float* y, float* stats, const float* x, const float* scales, Rows r) {
  const size_t n = r.columns;
#pragma omp parallel for
  for (size_t t = 0; t < r.rows; ++t) {
    const float* in = x + t * n;
    float sum = 0, squares = 0;
    for (size_t i = 0; i < n; ++i) sum += in[i];
    const float mean = sum / (float)n;
    for (size_t i = 0; i < n; ++i) squares += (in[i] - mean) * (in[i] - mean);
    const float inverse = 1 / sqrtf(squares / (float)n + 1e-5f);
    for (size_t i = 0; i < n; ++i)
      y[t * n + i] = (in[i] - mean) * inverse * scales[i] + scales[n + i];
    stats[2 * t] = mean;
    stats[2 * t + 1] = inverse;
  }
}

static void norm_scale_grads(float* dscales, const float* dy, const float* x, const float* stats,
                             Rows r) {
  enum { kColumns = 128 };
  const size_t n = r.columns;
#pragma omp parallel for
  for (size_t first = 0; first < n; first += kColumns) {
    const size_t last = first + kColumns < n ? first + kColumns : n;
    for (size_t t = 0; t < r.rows; ++t)
      for (size_t i = first; i < last; ++i) {
        dscales[i] += dy[t * n + i] * (x[t * n + i] - stats[2 * t]) * stats[2 * t + 1];
        dscales[n + i] += dy[t * n + i];
      }
  }
}

void norm_backward(NormGrads g, const float* dy, const float* x, Normed normed, Rows r) {
  const size_t n = r.columns;
  norm_scale_grads(g.dscales, dy, x, normed.stats, r);
#pragma omp parallel for
  for (size_t t = 0; t < r.rows; ++t) {
    const float *in = x + t * n, *d = dy + t * n, *gamma = normed.scales;
    const float mean = normed.stats[2 * t], inverse = normed.stats[2 * t + 1];
    float shift = 0, along = 0;
    for (size_t i = 0; i < n; ++i) {
      shift += d[i] * gamma[i];
      along += d[i] * gamma[i] * (in[i] - mean) * inverse;
    }
    shift /= (float)n;
    along /= (float)n;
    float* restrict dx = g.dx + t * n;
    for (size_t i = 0; i < n; ++i)
      dx[i] += (d[i] * gamma[i] - shift - (in[i] - mean) * inverse * along) * inverse;
  }
}

void gelu_forward(float* y, const float* x, size_t n) {
#pragma omp parallel for
  for (size_t i = 0; i < n; ++i)
    y[i] = 0.5f * x[i] * (1 + tanhf(0.7978845608f * (x[i] + 0.044715f * x[i] * x[i] * x[i])));
}

void gelu_backward(float* dx, const float* x, size_t n) {
#pragma omp parallel for
  for (size_t i = 0; i < n; ++i) {
    const float t = tanhf(0.7978845608f * (x[i] + 0.044715f * x[i] * x[i] * x[i]));
    const float slope = 0.7978845608f * (1 + 0.134145f * x[i] * x[i]);
    dx[i] *= 0.5f * (1 + t + x[i] * (1 - t * t) * slope);
  }
}

void add(float* y, const float* x, size_t n) {
#pragma omp parallel for
  for (size_t i = 0; i < n; ++i) y[i] += x[i];
}

void embed(float* out, const int* tokens, const float* table, const float* positions,
           PlainShape s) {
  const size_t c = (size_t)s.hidden, n = (size_t)s.sequence;
#pragma omp parallel for collapse(2)
  for (size_t b = 0; b < (size_t)s.batch; ++b)
    for (size_t t = 0; t < n; ++t) {
      const float* row = table + (size_t)tokens[b * (n + 1) + t] * c;
      for (size_t i = 0; i < c; ++i) out[(b * n + t) * c + i] = row[i] + positions[t * c + i];
    }
}

void embed_backward(float* dtable, float* dpositions, const int* tokens, const float* dout,
                    PlainShape s) {
  const size_t c = (size_t)s.hidden, n = (size_t)s.sequence;
  for (size_t b = 0; b < (size_t)s.batch; ++b)
    for (size_t t = 0; t < n; ++t) {
      float* row = dtable + (size_t)tokens[b * (n + 1) + t] * c;
      for (size_t i = 0; i < c; ++i) {
        row[i] += dout[(b * n + t) * c + i];
        dpositions[t * c + i] += dout[(b * n + t) * c + i];
      }
    }
}

float loss_and_gradient(float* logits, const int* tokens, size_t columns, PlainShape s) {
  const size_t n = (size_t)s.sequence, rows = (size_t)s.batch * n, vocab = (size_t)s.vocab;
  double loss = 0;
#pragma omp parallel for reduction(+ : loss)
  for (size_t r = 0; r < rows; ++r) {
    float *x = logits + r * columns, most = x[0], total = 0;
    const size_t target = (size_t)tokens[r / n * (n + 1) + r % n + 1];
    for (size_t j = 0; j < vocab; ++j) most = x[j] > most ? x[j] : most;
    const float chosen = x[target] - most;
    for (size_t j = 0; j < vocab; ++j) {
      x[j] = expf(x[j] - most);
      total += x[j];
    }
    loss += logf(total) - chosen;
    const float factor = 1 / (total * (float)rows);
    for (size_t j = 0; j < vocab; ++j) x[j] *= factor;
    for (size_t j = vocab; j < columns; ++j) x[j] = 0;
    x[target] -= 1 / (float)rows;
  }
  return (float)(loss / (double)rows);
}

float sum_of_squares(const float* x, size_t n) {
  double total = 0;
#pragma omp parallel for reduction(+ : total)
  for (size_t i = 0; i < n; ++i) total += x[i] * x[i];
  return (float)total;
}

void adamw(AdamState state, Update u) {
  const PlainAdamW a = u.adam;
  const float correct1 = 1 / (1 - powf(a.beta1, (float)a.update));
  const float correct2 = 1 / (1 - powf(a.beta2, (float)a.update));
#pragma omp parallel for
  for (size_t i = 0; i < u.elements; ++i) {
    const float g = state.grads[i] * u.scale;
    const float m = a.beta1 * state.moment1[i] + (1 - a.beta1) * g;
    const float v = a.beta2 * state.moment2[i] + (1 - a.beta2) * g * g;
    state.moment1[i] = m;
    state.moment2[i] = v;
    state.values[i] -= a.learning_rate * (m * correct1 / (sqrtf(v * correct2) + a.epsilon) +
                                          a.weight_decay * state.values[i]);
  }
}
