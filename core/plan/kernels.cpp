#include "core/plan/kernels.h"

#include <cmath>

namespace trainyard {
namespace {

Bytes bytes(double n) { return {std::llround(n)}; }
double d(std::int64_t n) { return static_cast<double>(n); }

}  // namespace

KernelSpec gemm(KernelKind kind, const GemmShape& shape, DType dtype, std::uint8_t flags) {
  const auto [m, n, k, pieces] = shape;
  const bool weights = kind == KernelKind::gemm_weight_grad;
  const double out = d(m) * d(n) * d(weights ? size_of(DType::fp32) : size_of(dtype));
  KernelSpec spec;
  spec.kind = kind;
  spec.dtype = dtype;
  spec.flag = flags;
  spec.shape = {m, n, k, pieces};
  spec.flops = 2 * d(m) * d(n) * d(k);
  spec.read = bytes(d(size_of(dtype)) * (d(m) + d(n)) * d(k) +
                    (weights || (flags & kGemmAdds) != 0 ? out : 0));
  spec.written = bytes(out);
  return spec;
}

void set_dropout(KernelSpec& spec, const Dropout& dropout) {
  if (dropout.probability <= 0) return;
  spec.parameter = dropout.probability;
  spec.site = dropout.site;
}

KernelSpec attention(bool forward, const AttentionShape& a, DType dtype, const Dropout& dropout) {
  const double queries = d(a.batch) * d(a.sequence) / d(a.context);
  const double query = queries * d(a.heads) * d(a.head_dim);
  const double key = d(a.batch) * d(a.sequence) * d(a.kv_heads) * d(a.head_dim);
  const double statistics = 4 * queries * d(a.heads);  // log-sum-exp, fp32
  const double element = d(size_of(dtype));
  KernelSpec spec;
  spec.kind = forward ? KernelKind::attention_forward : KernelKind::attention_backward;
  spec.dtype = dtype;
  spec.shape = {a.batch, a.heads, a.kv_heads, a.sequence, a.head_dim, a.window};
  if (a.context > 1) spec.flag = static_cast<std::uint8_t>(a.context);
  set_dropout(spec, dropout);
  const double product = 4 * query * mean_causal_keys(a.sequence, a.window);
  spec.flops = forward ? product : 2.5 * product;
  const double qkv = element * (query + 2 * key), out = element * query;
  spec.read = bytes(forward ? qkv : qkv + 2 * out + statistics);
  spec.written = bytes(forward ? out + statistics : qkv);
  return spec;
}

KernelSpec batched_gemm(KernelKind kind, std::int64_t batch, const GemmShape& shape, DType dtype) {
  const auto [m, n, k, pieces] = shape;
  const bool gradient =
      kind == KernelKind::attention_scores_grad || kind == KernelKind::attention_context_grad;
  const double element = d(size_of(dtype)) * d(batch);
  const double left = element * d(m) * d(k), right = element * d(n) * d(k),
               out = element * d(m) * d(n);
  KernelSpec spec;
  spec.kind = kind;
  spec.dtype = dtype;
  spec.shape = {batch, m, n, k};
  spec.flops = (gradient ? 4 : 2) * d(batch) * d(m) * d(n) * d(k);
  spec.read = bytes(gradient ? 2 * out + left + right : left + right);
  spec.written = bytes(gradient ? left + right : out);
  return spec;
}

KernelSpec streaming(KernelKind kind, const MatrixShape& shape, const ElementTraffic& traffic,
                     DType dtype) {
  const double elements = d(shape.rows) * d(shape.columns);
  KernelSpec spec;
  spec.kind = kind;
  spec.dtype = dtype;
  spec.shape = {shape.rows, shape.columns};
  spec.read = bytes(traffic.read * elements);
  spec.written = bytes(traffic.written * elements);
  return spec;
}

KernelSpec per_parameter(KernelKind kind, std::int64_t elements, double read, double written) {
  KernelSpec spec = streaming(kind, {elements, 1}, {read, written}, DType::fp32);
  spec.shape = {elements};
  return spec;
}

}  // namespace trainyard
