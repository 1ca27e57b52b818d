#include "backends/cuda/kernels/cudnn_attention_graphs.h"

namespace trainyard {
namespace {

using Ids = CudnnAttentionIds;
using Tensor = CudnnGraph::Tensor;
using Dims = CudnnGraph::Dims;
using cuda_kernels::HeadLayout;

class AttentionGraph {
 public:
  explicit AttentionGraph(const AttentionCase& what)
      : what_(what),
        h_(what.heads),
        type_(what.dtype == DType::bf16 ? CUDNN_DATA_BFLOAT16 : CUDNN_DATA_HALF),
        query_(heads(Ids::query, h_.heads, h_.qkv_columns())),
        key_columns_(columns(Ids::key)),
        scale_(g_.scalar(Ids::scale)) {}

  CudnnGraph forward() &&;
  CudnnGraph backward() &&;

 private:
  Dims square() const { return {h_.batch, h_.heads, h_.sequence, h_.sequence}; }
  Dims row_each() const { return {h_.batch, h_.heads, h_.sequence, 1}; }
  Dims head_each() const { return {h_.batch, h_.heads, h_.sequence, h_.dim}; }

  // Heads of a buffer whose rows are `width` elements apart: [b, heads, s, d].
  Tensor heads(std::int64_t id, std::int64_t count, std::int64_t width) {
    return g_.in_memory(id, type_, {h_.batch, count, h_.sequence, h_.dim},
                        {h_.sequence * width, h_.dim, width, 1});
  }
  // Key or value heads, rows and columns exchanged: [b, kv, d, s].
  Tensor columns(std::int64_t id) {
    return g_.in_memory(id, type_, {h_.batch, h_.kv_heads, h_.dim, h_.sequence},
                        {h_.sequence * h_.qkv_columns(), h_.dim, 1, h_.qkv_columns()});
  }
  Tensor apply(const CudnnGraph::Pointwise& what, std::initializer_list<Tensor> from,
               const Dims& dims, cudnnDataType_t type = CUDNN_DATA_FLOAT) {
    const Tensor to = g_.between(type, dims);
    g_.pointwise(what, from, to);
    return to;
  }
  Tensor apply(cudnnPointwiseMode_t mode, std::initializer_list<Tensor> from, const Dims& dims) {
    return apply(CudnnGraph::Pointwise{mode}, from, dims);
  }
  Tensor product(Tensor a, Tensor b, const Dims& dims) {
    const Tensor to = g_.between(CUDNN_DATA_FLOAT, dims);
    g_.matmul(a, b, to);
    return to;
  }
  Tensor scaled_scores() {
    return apply(CUDNN_POINTWISE_MUL, {product(query_, key_columns_, square()), scale_}, square());
  }
  Tensor keep_where(Tensor condition, Tensor scores) {
    return apply(CUDNN_POINTWISE_BINARY_SELECT, {scores, mask_, condition}, square());
  }
  Tensor masked(Tensor scores);
  Tensor exchanged(Tensor from);
  void gradient_of_key_heads(Tensor weights, Tensor with, std::int64_t id);

  AttentionCase what_;
  HeadLayout h_;
  cudnnDataType_t type_;
  CudnnGraph g_;
  Tensor query_, key_columns_, scale_;
  Tensor mask_ = 0;
};

// A query sees itself and keys before it, in a window only the nearest: those with
// key + window > query.
Tensor AttentionGraph::masked(Tensor scores) {
  mask_ = g_.scalar(Ids::mask);
  const auto index = [&](std::int64_t axis) {
    return apply({CUDNN_POINTWISE_GEN_INDEX, CUDNN_DATA_FLOAT, axis}, {scores}, square(),
                 CUDNN_DATA_INT32);
  };
  const auto compare = [&](cudnnPointwiseMode_t mode, Tensor a, Tensor b) {
    return apply({mode, CUDNN_DATA_BOOLEAN}, {a, b}, square(), CUDNN_DATA_BOOLEAN);
  };
  const Tensor query = index(2), key = index(3);
  scores = keep_where(compare(CUDNN_POINTWISE_CMP_GE, query, key), scores);
  if (h_.window == 0) return scores;
  const Tensor row = index(2), column = index(3);
  const Tensor end = apply(CUDNN_POINTWISE_ADD, {column, g_.scalar(Ids::window)}, square());
  return keep_where(compare(CUDNN_POINTWISE_CMP_GT, end, row), scores);
}

CudnnGraph AttentionGraph::forward() && {
  const Tensor scores = masked(scaled_scores());
  const Tensor most = g_.between(CUDNN_DATA_FLOAT, row_each());
  g_.reduce(CUDNN_REDUCE_TENSOR_MAX, scores, most);
  const Tensor powers =
      apply(CUDNN_POINTWISE_EXP, {apply(CUDNN_POINTWISE_SUB, {scores, most}, square())}, square());
  const Tensor sum = g_.between(CUDNN_DATA_FLOAT, row_each());
  g_.reduce(CUDNN_REDUCE_TENSOR_ADD, powers, sum);
  g_.pointwise({CUDNN_POINTWISE_ADD}, {most, apply(CUDNN_POINTWISE_LOG, {sum}, row_each())},
               g_.in_memory(Ids::lse, CUDNN_DATA_FLOAT, row_each()));
  const Tensor weights = apply({CUDNN_POINTWISE_DIV}, {powers, sum}, square(), type_);
  g_.matmul(weights, heads(Ids::value, h_.kv_heads, h_.qkv_columns()),
            heads(Ids::out, h_.heads, h_.query_columns()));
  return std::move(g_);
}

// Rows and columns of a square exchanged, in the type of the operands.
Tensor AttentionGraph::exchanged(Tensor from) {
  const std::int64_t s = h_.sequence;
  const Tensor to = g_.between(type_, square(), {h_.heads * s * s, s * s, 1, s});
  g_.reshape(from, to);
  return to;
}

// weights^T with, summed over the query heads that share a key head.
void AttentionGraph::gradient_of_key_heads(Tensor weights, Tensor with, std::int64_t id) {
  const Tensor to = heads(id, h_.kv_heads, h_.qkv_columns());
  if (h_.group == 1) return g_.matmul(exchanged(weights), with, to);
  const Tensor all = g_.between(type_, head_each());
  g_.matmul(exchanged(weights), with, all);
  g_.reduce(CUDNN_REDUCE_TENSOR_ADD, all, to);
}

// Weights again from the saved log-sum-exp, and gradients of the scores from the sums over heads of
// out * dout (Dao, arXiv 2307.08691, algorithm 2).
CudnnGraph AttentionGraph::backward() && {
  const Tensor out = heads(Ids::out, h_.heads, h_.query_columns());
  const Tensor dout = heads(Ids::dout, h_.heads, h_.query_columns());
  const Tensor sums = g_.between(CUDNN_DATA_FLOAT, row_each());
  g_.reduce(CUDNN_REDUCE_TENSOR_ADD, apply(CUDNN_POINTWISE_MUL, {dout, out}, head_each()), sums);
  const Tensor delta = g_.in_memory(Ids::delta, CUDNN_DATA_FLOAT, row_each());
  g_.pointwise({CUDNN_POINTWISE_MUL}, {sums, g_.scalar(Ids::one)}, delta);

  const Tensor lse = g_.in_memory(Ids::lse, CUDNN_DATA_FLOAT, row_each());
  const Tensor weights =
      apply(CUDNN_POINTWISE_EXP,
            {masked(apply(CUDNN_POINTWISE_SUB, {scaled_scores(), lse}, square()))}, square());
  gradient_of_key_heads(weights, dout, Ids::dvalue);

  const Tensor dweights = product(dout, columns(Ids::value), square());
  const Tensor differences = apply(CUDNN_POINTWISE_SUB, {dweights, delta}, square());
  const Tensor dscores =
      apply(CUDNN_POINTWISE_MUL,
            {apply(CUDNN_POINTWISE_MUL, {differences, weights}, square()), scale_}, square());
  gradient_of_key_heads(dscores, query_, Ids::dkey);

  const Tensor key = g_.between(type_, {h_.batch, h_.kv_heads, h_.sequence, h_.dim},
                                {h_.sequence * h_.qkv_columns(), h_.dim, h_.qkv_columns(), 1});
  g_.reshape(key_columns_, key);
  const Tensor dquery = heads(Ids::dquery, h_.heads, h_.qkv_columns());
  if (what_.repeatable) {
    g_.matmul(dscores, key, dquery);
  } else {  // blocks of keys add theirs as they come; cuDNN 9.19 makes no numerical note of it
    const Tensor added = g_.in_memory(Ids::dquery_sums, CUDNN_DATA_FLOAT, head_each());
    g_.matmul(dscores, key, added);
    g_.pointwise({CUDNN_POINTWISE_IDENTITY}, {added}, dquery);
  }
  return std::move(g_);
}

}  // namespace

CudnnGraph cudnn_attention_graph(const AttentionCase& what) {
  AttentionGraph graph(what);
  return what.backward ? std::move(graph).backward() : std::move(graph).forward();
}

}  // namespace trainyard
