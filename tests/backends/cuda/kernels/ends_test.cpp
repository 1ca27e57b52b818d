#include <cmath>

#include "tests/backends/cuda/kernels/both.h"

namespace trainyard::testing {
namespace {

using K = KernelKind;

constexpr DType kAllTypes[] = {DType::fp32, DType::bf16, DType::fp16};

KernelSpec spec_of_type(DType dtype, K kind, std::array<std::int64_t, 6> shape,
                        std::uint8_t flag = 0) {
  KernelSpec spec = spec_of(kind, shape, flag);
  spec.dtype = dtype;
  return spec;
}

// Tokens [sequences, sequence + 1] of a vocabulary; every fifth is no target.
Buffer some_tokens(std::int64_t sequences, std::int64_t sequence, std::int64_t vocab) {
  Buffer b = zeros(sequences, sequence + 1);
  for (std::size_t i = 0; i < b.values.size(); ++i) {
    const auto id = static_cast<std::int64_t>((i * 7 + i / 3) % static_cast<std::size_t>(vocab));
    b.values[i] = static_cast<double>(i % 5 == 4 ? ~id : id);
  }
  b.dtype = DType::int32;
  return b;
}

// The second of two tensor ranks, whose part of the vocabulary ends in padding.
KernelContext second_rank(std::int64_t sequences, std::int64_t sequence, std::int64_t vocab) {
  KernelContext c;
  c.tokens = sequences * sequence;
  c.sequence = sequence;
  c.first_ids_row = 1;
  c.tensor_size = 2;
  c.tensor_rank = 1;
  c.vocab = vocab;
  c.loss_weight = 3.5;
  return c;
}

TEST(CudaEmbedding, EqualsTheCpus) {
  for (const DType t : kAllTypes)
    for (const auto& [sequence, n] : {std::pair{1, 1}, {5, 33}, {150, 40}, {7, 1100}}) {
      const KernelContext c = second_rank(2, sequence, 19);
      const Buffer tokens = some_tokens(3, sequence, 19), table = normal_in(t, "t", 10, n, 2);
      const std::int64_t rows = 2 * sequence;
      expect_same(spec_of_type(t, K::embedding_forward, {rows, n}),
                  {tokens, table, zeros_in(t, rows, n)}, c, {0, 0});
      // Sums in the CPU's order: the same bits.
      expect_same(spec_of_type(t, K::embedding_backward, {rows, n}),
                  {tokens, normal_in(t, "d", rows, n), normal("g", 10, n, 1)}, c, {0, 0});
      expect_same(spec_of_type(t, K::embedding_backward, {rows, n}, 1),
                  {normal_in(t, "d", rows, n), normal("g", sequence + 2, n)}, c, {0, 0});
    }
}

TEST(CudaEmbedding, PositionGradientsOfAShardEqualTheCpus) {
  KernelContext c = second_rank(4, 6, 19);
  c.parts = 2;
  expect_same(spec_of_type(DType::bf16, K::embedding_backward, {12, 17}, 1),
              {normal_in(DType::bf16, "d", 12, 17), normal("g", 6, 17)}, c, {0, 0});
}

TEST(CudaLoss, EqualsTheCpus) {
  for (const DType t : kAllTypes)
    for (const auto& [sequence, n] : {std::pair{1, 1}, {5, 33}, {150, 8}, {3, 2500}}) {
      const std::int64_t rows = 2 * sequence, vocab = n + std::max(1, n - 3);
      const KernelContext c = second_rank(2, sequence, vocab);
      const Buffer tokens = some_tokens(3, sequence, vocab), logits = normal_in(t, "l", rows, n, 1);
      const auto most =
          expect_same(spec_of_type(t, K::loss_max, {rows, n}), {logits, zeros(rows, 1)}, c, {0, 0});
      const auto sums = expect_same(spec_of_type(t, K::loss_sum, {rows, n}),
                                    {logits, tokens, most[1], zeros(rows, 2)}, c, {1e-5, 1e-6});
      expect_same(spec_of_type(t, K::loss_forward, {rows, 2}),
                  {tokens, most[1], sums[3], normal("loss", 1, 2)}, c, {1e-6, 1e-6});
      expect_same(spec_of_type(t, K::loss_backward, {rows, n}),
                  {logits, tokens, most[1], sums[3], zeros_in(t, rows, n)}, c, bound_of(t));
    }
}

TEST(CudaLoss, ARankWithPaddingAloneHasNoMaximumAndNoSum) {
  const KernelContext c = second_rank(1, 3, 4);  // rank 1 has columns 4 … 7
  const auto most = expect_same(spec_of_type(DType::bf16, K::loss_max, {3, 4}),
                                {normal_in(DType::bf16, "l", 3, 4), zeros(3, 1)}, c, {0, 0});
  EXPECT_EQ(most[1].at(0, 0), -INFINITY);
}

struct Flat {
  Buffer grad = normal("grad", 1, kElements), m = normal("m", 1, kElements),
         v = normal("v", 1, kElements), weight = normal("w", 1, kElements),
         param = zeros_in(DType::bf16, 1, kElements);
  // More than two chunks of 2^14 elements, tensors that begin off 16 bytes, a gap before the last.
  static constexpr std::int64_t kElements = 34001;
  std::vector<FlatTensor> tensors{{.first = 0, .elements = 3, .decays = false},
                                  {.first = 3, .elements = 16500, .in_own_norm = false},
                                  {.first = 16503, .elements = 0},
                                  {.first = 16503, .elements = 16497, .in_gradient_norm = false},
                                  {.first = 33011, .elements = 990}};
  Flat() {
    for (double& x : v.values) x = std::abs(x);
  }
  KernelContext context() const {
    KernelContext c;
    c.tensors = tensors;
    c.gradient_scale = 0.25;
    c.learning_rate = 0.01;
    c.weight_decay = 0.1;
    c.update = 3;
    return c;
  }
};

TEST(CudaOptimizer, AdamEqualsTheCpus) {
  Flat f;
  for (const bool skip : {false, true})
    for (const K kind : {K::adam, K::adamw}) {
      KernelContext c = f.context();
      c.skip_update = skip;
      const KernelSpec spec = spec_of_type(DType::bf16, kind, {Flat::kElements});
      expect_same(spec, {f.grad, f.m, f.v, f.weight, f.param}, c, {0x1p-7, 1e-6});
      expect_same(spec, {f.grad, f.m, f.v, f.weight}, c, {2e-6, 2e-6});
    }
  KernelContext whole = f.context();
  whole.tensors = {};
  expect_same(spec_of_type(DType::bf16, K::adamw, {Flat::kElements}),
              {f.grad, f.m, f.v, f.weight, f.param}, whole, {0x1p-7, 1e-6}, OnGpu{4});
}

TEST(CudaOptimizer, LambEqualsTheCpus) {
  Flat f;
  for (const bool skip : {false, true}) {
    KernelContext c = f.context();
    c.skip_update = skip;
    const auto n = static_cast<std::int64_t>(f.tensors.size());
    const auto updated = expect_same(
        spec_of_type(DType::bf16, K::lamb_update, {Flat::kElements}),
        {f.grad, f.m, f.v, f.weight, zeros(1, Flat::kElements), zeros(n, 2)}, c, {1e-5, 1e-5});
    expect_same(spec_of_type(DType::bf16, K::lamb_apply, {Flat::kElements}),
                {updated[4], updated[5], f.weight, f.param}, c, {0x1p-7, 1e-6});
  }
}

TEST(CudaOptimizer, TheNormCountsWhatIsNotFiniteAndClipsAsTheCpus) {
  Flat f;
  const KernelContext c = f.context();
  const KernelSpec norm = spec_of_type(DType::fp32, K::grad_norm, {Flat::kElements});
  const auto of = expect_same(norm, {f.grad, normal("n", 1, 2)}, c, {1e-6, 0});
  for (const double most : {0.5, 1e6}) {
    KernelSpec clip = spec_of_type(DType::fp32, K::grad_clip, {Flat::kElements});
    clip.parameter = most;
    expect_same(clip, {f.grad, of[1]}, c, {1e-6, 0});
  }
  f.grad.at(0, 5) = INFINITY;
  f.grad.at(0, 20000) = NAN;  // of a tensor that does not count
  f.grad.at(0, 33500) = NAN;
  std::vector<Buffer> broken{f.grad, zeros(1, 2)};
  run_on_gpu(norm, broken, c);
  EXPECT_FALSE(std::isfinite(broken[1].at(0, 0)));
  EXPECT_EQ(broken[1].at(0, 1), 2);
}

TEST(CudaOptimizer, AnOverflowOnTheDeviceSkipsTheStep) {
  for (const auto& [squares, overflows, skips] :
       {std::tuple{4.0F, 0.0F, 0}, {4.0F, 1.0F, 1}, {INFINITY, 0.0F, 1}}) {
    const float values[2] = {squares, overflows};
    StepScalars scalars;
    const DeviceBytes norm(sizeof values), on_device(sizeof scalars);
    cudaMemcpy(norm.data(), values, sizeof values, cudaMemcpyHostToDevice);
    cudaMemcpy(on_device.data(), &scalars, sizeof scalars, cudaMemcpyHostToDevice);
    cudaStream_t stream = nullptr;
    cudaStreamCreate(&stream);
    check_overflow({norm.data(), 1, 2, 2, DType::fp32}, static_cast<StepScalars*>(on_device.data()),
                   stream);
    cudaStreamSynchronize(stream);
    cudaStreamDestroy(stream);
    cudaMemcpy(&scalars, on_device.data(), sizeof scalars, cudaMemcpyDeviceToHost);
    EXPECT_EQ(scalars.skip, skips);
  }
}

}  // namespace
}  // namespace trainyard::testing
