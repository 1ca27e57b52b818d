#include <gmock/gmock.h>

#include <cmath>

#include "backends/cuda/kernels/cudnn_attention.h"
#include "core/error.h"
#include "tests/backends/cuda/kernels/both.h"
#include "tests/cuda_on_host/cudnn_run.h"

namespace trainyard::testing {
namespace {

using ::testing::HasSubstr;
using K = KernelKind;

constexpr DType kStored[] = {DType::fp32, DType::bf16, DType::fp16};

KernelSpec product_spec(DType dtype, K kind, std::array<std::int64_t, 6> shape,
                        std::uint8_t flag = 0, double parameter = 0) {
  KernelSpec spec = spec_of(kind, shape, flag, parameter);
  spec.dtype = dtype;
  spec.site = 3;
  return spec;
}

// Sums of k products of normal numbers, in fp32 in another order.
Bound product_bound(DType dtype, std::int64_t k) {
  return bound_of(dtype, 1e-6 * (1 + std::sqrt(static_cast<double>(k))));
}

TEST(CudaGemm, EqualsTheCpusInEveryLayout) {
  for (const DType t : kStored)
    for (const auto& [m, n, k] : {std::tuple<std::int64_t, std::int64_t, std::int64_t>{1, 1, 1},
                                  {1, 9, 5},
                                  {7, 1, 33},
                                  {33, 17, 70}})
      for (const int flag : {0, 1, 2, 4, 5, 6}) {
        const bool transposed = (flag & kGemmTransposed) != 0, biased = (flag & kGemmBias) != 0;
        const Bound bound = product_bound(t, k);
        const auto weight = [&](std::int64_t in, std::int64_t out, DType type) {
          return transposed ? normal_in(type, "w", out, in, 2) : normal_in(type, "w", in, out, 2);
        };
        std::vector<Buffer> forward{normal_in(t, "x", m, k, 1), weight(k, n, t)};
        if (biased) forward.push_back(normal_in(t, "b", 1, n));
        forward.push_back(normal_in(t, "y", m, n, 3));
        const auto f = static_cast<std::uint8_t>(flag);
        expect_same(product_spec(t, K::gemm_forward, {m, n, k}, f), forward, {}, bound);
        if (!biased)
          expect_same(product_spec(t, K::gemm_input_grad, {m, n, k}, f),
                      {normal_in(t, "dy", m, k), weight(n, k, t), normal_in(t, "dx", m, n, 3)}, {},
                      bound);
        std::vector<Buffer> gradient{normal_in(t, "x", k, m, 1), normal_in(t, "dy", k, n),
                                     weight(m, n, DType::fp32)};
        if (biased) gradient.push_back(normal("db", 1, n));
        expect_same(product_spec(t, K::gemm_weight_grad, {m, n, k}, f), gradient, {},
                    product_bound(DType::fp32, k));
      }
}

TEST(CudaGemm, ABiasMayBeForTheFirstColumnsOnly) {
  for (const int flag : {1, 5}) {
    const DType t = DType::bf16;
    const auto f = static_cast<std::uint8_t>(flag);
    const Buffer w =
        (flag & kGemmTransposed) != 0 ? normal_in(t, "w", 20, 8) : normal_in(t, "w", 8, 20);
    expect_same(product_spec(t, K::gemm_forward, {5, 20, 8}, f),
                {normal_in(t, "x", 5, 8), w, normal_in(t, "b", 1, 12), zeros_in(t, 5, 20)}, {},
                product_bound(t, 8));
    Buffer dw = w;
    dw.dtype = DType::fp32;
    expect_same(product_spec(t, K::gemm_weight_grad, {8, 20, 70}, f),
                {normal_in(t, "x", 70, 8), normal_in(t, "dy", 70, 20), dw, normal("db", 1, 12)}, {},
                product_bound(DType::fp32, 70));
  }
}

struct Heads {
  std::int64_t batch, heads, kv, sequence, dim, window;
  std::int64_t context = 1, context_rank = 0;
  std::int64_t own_tokens() const { return batch * sequence / context; }
};

KernelContext attention_context(const Heads& h) {
  KernelContext c;
  c.seed = 9;
  c.step = 2;
  c.tokens = h.own_tokens();
  c.context_size = h.context;
  c.context_rank = h.context_rank;
  c.sequence = h.sequence;
  c.first_sample = 3;
  c.tensor_rank = 1;
  return c;
}

// Forward, then backward from its results. What a 16-bit kernel may be off: probabilities and their
// gradients may be rounded to the storage type before they meet values, which the CPU does in fp32.
void expect_same_attention(DType t, const Heads& h, double dropout, const OnGpu& how = {}) {
  const ::testing::ScopedTrace where(
      __FILE__, __LINE__,
      ::testing::Message() << h.batch << " x " << h.heads << "/" << h.kv << " x " << h.sequence
                           << " x " << h.dim << " window " << h.window << " dropout " << dropout
                           << " rank " << h.context_rank << " of " << h.context);
  const std::int64_t tokens = h.own_tokens(), columns = (h.heads + 2 * h.kv) * h.dim;
  const auto flag = static_cast<std::uint8_t>(h.context > 1 ? h.context : 0);
  const KernelSpec spec =
      product_spec(t, K::attention_forward, {h.batch, h.heads, h.kv, h.sequence, h.dim, h.window},
                   flag, dropout);
  const double unit = t == DType::fp32 ? 1e-6 : t == DType::bf16 ? 0x1p-8 : 0x1p-11;
  const Buffer qkv = normal_in(t, "qkv", tokens, columns);
  const std::int64_t all = h.batch * h.sequence, kv_columns = 2 * h.kv * h.dim;
  std::vector<Buffer> operands{qkv, zeros_in(t, tokens, h.heads * h.dim),
                               zeros(h.batch * h.heads, h.sequence / h.context)};
  if (h.context > 1) operands.insert(operands.begin() + 1, normal_in(t, "kv", all, kv_columns));
  operands = expect_same(spec, operands, attention_context(h), {2 * unit, 4 * unit}, how);
  KernelSpec back = spec;
  back.kind = K::attention_backward;
  operands.push_back(normal_in(t, "dout", tokens, h.heads * h.dim));
  operands.push_back(zeros_in(t, tokens, columns));
  if (h.context > 1) operands.push_back(zeros_in(t, all, kv_columns));
  expect_same(back, operands, attention_context(h), {4 * unit, 16 * unit}, how);
}

TEST(CudaAttention, EqualsTheCpus) {
  for (const DType t : kStored)
    for (const Heads& h :
         {Heads{1, 1, 1, 1, 8, 0}, Heads{2, 4, 2, 37, 16, 0}, Heads{1, 2, 2, 70, 64, 0},
          Heads{1, 3, 1, 50, 40, 7}, Heads{1, 2, 1, 33, 128, 33}, Heads{1, 1, 1, 34, 5, 0}})
      expect_same_attention(t, h, 0);
}

// More than one tile of queries and of keys, both widths of the tensor-core kernels, heads that
// fill them and that do not.
TEST(CudaAttention, TilesPassByOnTensorCores) {
  for (const DType t : {DType::bf16, DType::fp16})
    for (const Heads& h :
         {Heads{1, 1, 1, 64, 64, 0}, Heads{1, 2, 1, 130, 64, 0}, Heads{1, 1, 1, 150, 48, 40},
          Heads{1, 1, 1, 129, 128, 70}, Heads{1, 2, 1, 70, 80, 0}})
      expect_same_attention(t, h, 0);
}

TEST(CudaAttention, DropsTheCpusWeights) {
  for (const DType t : kStored) expect_same_attention(t, {2, 4, 2, 37, 16, 20}, 0.3);
  expect_same_attention(DType::bf16, {1, 2, 1, 37, 5, 20}, 0.3);
}

// Pieces of one token, a little more than a tile, and of several tiles; windows that end within.
TEST(CudaAttention, ContextRanksHaveTwoPiecesOfTheSequenceAndAllKeys) {
  for (const DType t : kStored)
    for (const std::int64_t rank : {0, 1})
      for (const Heads& h : {Heads{1, 1, 1, 4, 8, 0, 2, rank}, Heads{2, 4, 2, 76, 16, 0, 2, rank},
                             Heads{1, 1, 1, 276, 16, 90, 2, rank},
                             Heads{1, 1, 1, 48, 8, 11, 4, rank}, Heads{1, 1, 1, 44, 5, 0, 2, rank}})
        expect_same_attention(t, h, 0);
  expect_same_attention(DType::bf16, {1, 2, 1, 48, 16, 20, 3, 2}, 0.3);
  expect_same_attention(DType::fp32, {1, 2, 1, 48, 16, 20, 3, 2}, 0.3);
}

TEST(CudaAttention, HeadsMayHave256Elements) {
  expect_same_attention(DType::fp32, {1, 1, 1, 35, 256, 0}, 0);
  expect_same_attention(DType::bf16, {1, 1, 1, 35, 200, 0}, 0);
}

using Kernels = AttentionChoice::Kernels;

// Odd sizes, one token, sizes beyond a block of an engine, heads of every kind that shares keys or
// does not, windows; sums in a fixed order and not.
TEST(CudaAttention, CudnnsEqualsTheCpus) {
  const int before = cuda_on_host::cudnn_runs();
  int kernels = 0;
  for (const DType t : {DType::bf16, DType::fp16})
    for (const bool repeatable : {true, false})
      for (const Heads& h :
           {Heads{1, 1, 1, 1, 8, 0}, Heads{2, 4, 2, 37, 16, 0}, Heads{1, 3, 1, 50, 40, 7},
            Heads{1, 2, 1, 33, 128, 33}, Heads{1, 2, 2, 130, 64, 0}, Heads{2, 4, 4, 65, 80, 64}}) {
        expect_same_attention(t, h, 0, {0, {Kernels::cudnn, repeatable}});
        kernels += 2;
      }
  EXPECT_EQ(cuda_on_host::cudnn_runs() - before, kernels);
}

TEST(CudaAttention, WhatCudnnHasNoEngineForIsTheOwnKernels) {
  const OnGpu automatic{0, {Kernels::automatic, true}};
  const int before = cuda_on_host::cudnn_runs();
  expect_same_attention(DType::fp32, {1, 2, 1, 33, 16, 0}, 0, automatic);
  expect_same_attention(DType::bf16, {1, 1, 1, 34, 5, 0}, 0, automatic);
  expect_same_attention(DType::bf16, {1, 2, 1, 37, 16, 0}, 0.3, automatic);
  EXPECT_EQ(cuda_on_host::cudnn_runs(), before);
  expect_same_attention(DType::bf16, {1, 1, 1, 35, 200, 0}, 0, automatic);
  EXPECT_EQ(cuda_on_host::cudnn_runs(), before + 1) << "forward alone takes heads above 128";
  expect_same_attention(DType::bf16, {1, 2, 1, 37, 16, 0}, 0, {8, {Kernels::automatic, true}});
  EXPECT_EQ(cuda_on_host::cudnn_runs(), before + 1) << "operands that are not aligned";
}

std::string refusal(const KernelSpec& spec, const AttentionChoice& choice) {
  CudnnAttention attention(choice);
  try {
    EXPECT_EQ(attention.prepare(spec), 0U);
  } catch (const ConfigError& error) {
    return error.what();
  }
  const std::vector<std::string> notes = attention.take_notes();
  EXPECT_EQ(attention.prepare(spec), 0U);
  EXPECT_TRUE(attention.take_notes().empty()) << "told once";
  return notes.size() == 1 ? notes[0] : "";
}

TEST(CudaAttention, CudnnsRefusalNamesTheShapeAndTheReason) {
  const auto spec = [](DType t, K kind, std::array<std::int64_t, 6> shape, double dropout = 0) {
    return product_spec(t, kind, shape, 0, dropout);
  };
  const std::string fp32 =
      "attention_forward of 2 x 4 heads (2 of keys) of 16 x 8 in fp32 is not "
      "cuDNN's: it has no engine for fp32";
  const KernelSpec plain = spec(DType::fp32, K::attention_forward, {2, 4, 2, 16, 8, 0});
  EXPECT_EQ(refusal(plain, {Kernels::automatic, true}), fp32);
  EXPECT_EQ(refusal(plain, {Kernels::cudnn, true}), fp32 + "; run.attention may be auto or own");
  EXPECT_EQ(refusal(plain, {Kernels::own, true}), "");
  const auto reason = [&](const KernelSpec& of) { return refusal(of, {Kernels::automatic, true}); };
  EXPECT_THAT(reason(spec(DType::bf16, K::attention_forward, {1, 1, 1, 8, 5, 0})),
              HasSubstr("multiple of 8 elements"));
  EXPECT_THAT(reason(spec(DType::bf16, K::attention_forward, {1, 1, 1, 8, 8, 0}, 0.1)),
              HasSubstr("its dropout has draws of its own"));
  EXPECT_THAT(reason(spec(DType::bf16, K::attention_backward, {1, 1, 1, 8, 136, 0})),
              HasSubstr("cuDNN has no engine for it"));
  // Gradients of all scores in 16 bits: 4 x 32 x 2048^2 x 2 bytes are 1 GiB.
  const KernelSpec large = spec(DType::bf16, K::attention_backward, {4, 32, 8, 2048, 128, 0});
  EXPECT_THAT(reason(large), HasSubstr("it takes 1025 MiB beside the arena, more than 256"));
  CudnnAttention loose({Kernels::automatic, false});
  EXPECT_GT(loose.prepare(large), std::size_t{4 * 32 * 2048 * 128 * 4});  // fp32 sums of dquery
}

TEST(CudaUnfusedAttention, EqualsTheCpus) {
  for (const DType t : kStored)
    for (const Heads& h :
         {Heads{1, 1, 1, 1, 8, 0}, Heads{2, 4, 4, 17, 8, 0}, Heads{2, 6, 2, 40, 40, 0}}) {
      const std::int64_t tokens = h.batch * h.sequence, all = h.batch * h.heads, s = h.sequence;
      const Buffer qkv = normal_in(t, "qkv", tokens, (h.heads + 2 * h.kv) * h.dim, 2);
      const Buffer square = normal_in(t, "s", all * s, s, 1);
      const Buffer dqkv = normal_in(t, "dqkv", tokens, qkv.columns);
      const Buffer out = normal_in(t, "out", tokens, h.heads * h.dim, 1);
      const Bound bound = product_bound(t, 3 * s + h.dim);
      expect_same(product_spec(t, K::attention_scores, {all, s, s, h.dim}), {qkv, square}, {},
                  bound);
      expect_same(product_spec(t, K::attention_scores_grad, {all, s, s, h.dim}),
                  {qkv, square, dqkv}, {}, bound);
      expect_same(product_spec(t, K::attention_context, {all, s, h.dim, s}), {qkv, square, out}, {},
                  bound);
      expect_same(product_spec(t, K::attention_context_grad, {all, s, h.dim, s}),
                  {qkv, square, out, zeros_in(t, all * s, s), dqkv}, {}, bound);
    }
}

}  // namespace
}  // namespace trainyard::testing
