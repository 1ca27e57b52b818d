#include <gtest/gtest.h>

#include <array>

#include "simulator/timing.h"
#include "tests/simulator/profiles.h"

namespace trainyard {
namespace {

using K = KernelKind;

// One layer of Korthikanti et al.'s 22B model on 8 A100s (arXiv 2205.05198, table 4): hidden 6144,
// 64 heads of 96, sequence 2048, micro-batch 4, tensor parallel 8, unfused attention, dropout.
constexpr std::int64_t kTokens = 4 * 2048, kHidden = 6144, kTensor = 8, kBatchHeads = 4 * 64 / 8;
constexpr std::int64_t kSequence = 2048, kHeadDim = 96;

KernelSpec of(K kind, const std::array<std::int64_t, 6>& shape) {
  KernelSpec spec;
  spec.kind = kind;
  spec.dtype = DType::fp16;
  spec.shape = shape;
  return spec;
}

class Layer22B : public testing::Test {
 protected:
  Layer22B()
      : cluster(load_cluster("a100-8")),
        kernels(cluster.gpu, {}),
        collectives(cluster, Network{}) {}

  double gemm(K kind, std::int64_t m, std::int64_t n, std::int64_t k) const {
    KernelSpec spec = of(kind, {m, n, k});
    const bool weight_grad = kind == K::gemm_weight_grad;
    spec.read = {2 * (m * k + k * n) + (weight_grad ? 4 * m * n : 0)};
    spec.written = {(weight_grad ? 4 : 2) * m * n};
    return milliseconds(spec);
  }
  // The three GEMMs of a linear layer from `in` to `out` features.
  double forward(std::int64_t in, std::int64_t out) const {
    return gemm(K::gemm_forward, kTokens, out, in);
  }
  double backward(std::int64_t in, std::int64_t out) const {
    return gemm(K::gemm_input_grad, kTokens, in, out) + gemm(K::gemm_weight_grad, in, out, kTokens);
  }
  // `products` batched GEMMs over the heads.
  double heads(int products) const {
    KernelSpec spec = of(K::attention_scores, {kBatchHeads, kSequence, kSequence, kHeadDim});
    spec.flops = 2.0 * kBatchHeads * kSequence * kSequence * kHeadDim;
    return products * milliseconds(spec);
  }
  double memory(K kind, std::int64_t elements, std::int64_t bytes_each) const {
    KernelSpec spec = of(kind, {elements, 1});
    spec.read = {elements * bytes_each};
    return milliseconds(spec);
  }
  double collective(Op op) const {
    const GroupShape shape{.ranks = kTensor};
    return to_seconds(collectives.time(op, shape, {2 * kTokens * kHidden})) * 1e3;
  }

  double gemms_forward() const {
    return forward(kHidden, 3 * kHidden / kTensor) + forward(kHidden / kTensor, kHidden) +
           forward(kHidden, 4 * kHidden / kTensor) + forward(4 * kHidden / kTensor, kHidden);
  }
  double gemms_backward() const {
    return backward(kHidden, 3 * kHidden / kTensor) + backward(kHidden / kTensor, kHidden) +
           backward(kHidden, 4 * kHidden / kTensor) + backward(4 * kHidden / kTensor, kHidden);
  }
  // Softmax and dropout over the scores, and the two products.
  double attention_forward() const {
    return heads(2) + memory(K::softmax_forward, kScores, 4) +
           memory(K::dropout_forward, kScores, 5);
  }
  double attention_backward() const {
    return heads(4) + memory(K::softmax_backward, kScores, 6) +
           memory(K::dropout_backward, kScores, 5);
  }
  // Norms and bias-dropout-add on `elements`, GELU on this rank's part.
  double elementwise_forward(std::int64_t elements) const {
    return 2 * memory(K::norm_forward, elements, 4) + 2 * memory(K::residual_forward, elements, 7) +
           memory(K::activation_forward, kTokens * 4 * kHidden / kTensor, 4);
  }
  double elementwise_backward(std::int64_t elements) const {
    return 2 * memory(K::norm_backward, elements, 6) +
           2 * memory(K::residual_backward, elements, 5) +
           memory(K::activation_backward, kTokens * 4 * kHidden / kTensor, 6);
  }

  static constexpr std::int64_t kScores = kBatchHeads * kSequence * kSequence;
  Cluster cluster;
  KernelTimer kernels;
  CollectiveTimer collectives;

 private:
  double milliseconds(const KernelSpec& spec) const { return to_seconds(kernels.time(spec)) * 1e3; }
};

TEST_F(Layer22B, TensorParallelMatchesTable4) {
  const double forward_ms = gemms_forward() + attention_forward() +
                            elementwise_forward(kTokens * kHidden) + 2 * collective(Op::all_reduce);
  const double backward_ms = gemms_backward() + attention_backward() +
                             elementwise_backward(kTokens * kHidden) +
                             2 * collective(Op::all_reduce);
  EXPECT_NEAR(forward_ms, 7.7, 0.04 * 7.7);
  EXPECT_NEAR(backward_ms, 11.9, 0.06 * 11.9);
}

TEST_F(Layer22B, SequenceParallelMatchesTable4) {
  const std::int64_t shard = kTokens * kHidden / kTensor;
  const double around = 2 * collective(Op::all_gather) + 2 * collective(Op::reduce_scatter);
  const double forward_ms =
      gemms_forward() + attention_forward() + elementwise_forward(shard) + around;
  // Backward gathers the layer's inputs again; Megatron hides that beside the input gradient.
  const double backward_ms =
      gemms_backward() + attention_backward() + elementwise_backward(shard) + around;
  EXPECT_NEAR(forward_ms, 7.2, 0.04 * 7.2);
  EXPECT_NEAR(backward_ms, 11.8, 0.06 * 11.8);
}

TEST_F(Layer22B, SelectiveRecomputeAddsTheAttentionCore) {
  EXPECT_NEAR(attention_forward(), 13.2 - 11.9, 0.2);  // table 4, selective against none
}

}  // namespace
}  // namespace trainyard
