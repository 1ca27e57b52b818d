#include <utility>

#include "tests/backends/cuda/kernels/both.h"

namespace trainyard::testing {
namespace {

using K = KernelKind;

constexpr DType kTypes[] = {DType::fp32, DType::bf16, DType::fp16};
// One row, one column, odd sizes, more than a block has threads, packs and warps.
constexpr std::pair<std::int64_t, std::int64_t> kSizes[] = {{1, 1},  {1, 7},   {9, 1},   {3, 33},
                                                            {5, 64}, {70, 96}, {2, 1031}};

KernelSpec spec_in(DType dtype, K kind, std::array<std::int64_t, 6> shape, std::uint8_t flag = 0,
                   double parameter = 0) {
  KernelSpec spec = spec_of(kind, shape, flag, parameter);
  spec.dtype = dtype;
  spec.site = 5;
  return spec;
}

// Rows that are all tokens of sequences of `rows`.
KernelContext context_of(std::int64_t rows) {
  KernelContext c;
  c.seed = 77;
  c.step = 3;
  c.tokens = rows;
  c.sequence = rows;
  c.first_sample = 4;
  return c;
}

// Calls f(dtype, rows, columns, gap): with rows that lie apart, and without.
template <class F>
void for_sizes(F f) {
  for (const DType dtype : kTypes)
    for (const auto& [rows, columns] : kSizes)
      for (const std::int64_t gap : {0, 3}) f(dtype, rows, columns, gap);
}

TEST(CudaElementwise, AddAndZeroEqualTheCpus) {
  for_sizes([](DType t, auto rows, auto n, auto gap) {
    const Buffer a = normal_in(t, "a", rows, n, gap), b = normal_in(t, "b", rows, n);
    expect_same(spec_in(t, K::add, {rows, n}), {a, b}, {}, {0, 0});
    expect_same(spec_in(t, K::zero, {rows * n}), {a}, {}, {0, 0});
  });
}

TEST(CudaElementwise, PositionsAreThoseOfTheRowsOfAShard) {
  KernelContext c = context_of(24);
  c.sequence = 6;
  const Buffer table = normal_in(DType::bf16, "b", 6, 17);
  expect_same(spec_in(DType::bf16, K::add, {24, 17}, 1),
              {normal_in(DType::bf16, "a", 24, 17), table}, c, {0, 0});
  c.tensor_size = 2;
  c.tensor_rank = 1;
  c.parts = 3;
  expect_same(spec_in(DType::bf16, K::add, {12, 17}, 1),
              {normal_in(DType::bf16, "a", 12, 17), table}, c, {0, 0});
}

TEST(CudaElementwise, OperandsNeedNotBeAligned) {
  for (const DType t : kTypes) {
    const Buffer a = normal_in(t, "a", 3, 64), b = normal_in(t, "b", 3, 64);
    expect_same(spec_in(t, K::add, {3, 64}), {a, b}, {}, {0, 0}, OnGpu{4});
    expect_same(spec_in(t, K::zero, {3 * 64}), {a}, {}, {0, 0}, OnGpu{4});
  }
}

// The draws are the CPU's bit for bit, and so are the masks: expect_same() compares bytes exactly.
TEST(CudaDropout, DrawsTheCpusMasks) {
  for_sizes([](DType t, auto rows, auto n, auto gap) {
    const KernelContext c = context_of(rows);
    const Buffer x = normal_in(t, "x", rows, n, gap), y = zeros_in(t, rows, n);
    const auto drawn = expect_same(spec_in(t, K::dropout_forward, {rows, n, 0}, 0, 0.3),
                                   {x, y, bytes(rows, n)}, c, bound_of(t, 0));
    expect_same(spec_in(t, K::dropout_forward, {rows, n, 0}, 0, 0.3), {x, bytes(rows, n)}, c,
                bound_of(t, 0));
    expect_same(spec_in(t, K::dropout_backward, {rows, n, 0}, 0, 0.3), {drawn[2], x}, c,
                bound_of(t, 0));
  });
}

TEST(CudaDropout, RowsOfHeadsAndShardsDrawAsTheWholeDoes) {
  KernelContext c = context_of(24);
  c.sequence = 6;
  c.tensor_size = 2;
  c.tensor_rank = 1;
  c.parts = 2;
  const DType t = DType::bf16;
  expect_same(spec_in(t, K::dropout_forward, {12, 10, 0}, 0, 0.5),
              {normal_in(t, "x", 12, 10), bytes(12, 10)}, c, bound_of(t, 0));
  const std::int64_t heads = 3, rows = 4 * heads * 6;
  expect_same(spec_in(t, K::dropout_forward, {rows, 6, heads}, 0, 0.5),
              {normal_in(t, "x", rows, 6), bytes(rows, 6)}, c, bound_of(t, 0));
}

TEST(CudaResidual, EqualsTheCpusWithAndWithoutBiasAndDropout) {
  for_sizes([](DType t, auto rows, auto n, auto gap) {
    const KernelContext c = context_of(rows);
    const Buffer x = normal_in(t, "x", rows, n, gap), residual = normal_in(t, "r", rows, n, gap);
    const Buffer out = zeros_in(t, rows, n), bias = normal_in(t, "b", 1, n);
    const Buffer mask = bytes(rows, n), dbias = normal("db", 1, n);
    const Bound bound = bound_of(t, 1e-6), sums = bound_of(t, 1e-4);
    expect_same(spec_in(t, K::residual_forward, {rows, n}), {x, residual, out}, c, bound);
    expect_same(spec_in(t, K::residual_forward, {rows, n}, 1), {x, residual, out, bias}, c, bound);
    const auto drawn = expect_same(spec_in(t, K::residual_forward, {rows, n}, 1, 0.4),
                                   {x, residual, out, bias, mask}, c, bound);
    expect_same(spec_in(t, K::residual_forward, {rows, n}, 0, 0.4), {x, residual, out, mask}, c,
                bound);
    expect_same(spec_in(t, K::residual_backward, {rows, n}, 1), {x, dbias}, c, sums);
    expect_same(spec_in(t, K::residual_backward, {rows, n}, 1, 0.4), {x, drawn[4], out, dbias}, c,
                sums);
  });
}

TEST(CudaActivation, EqualsTheCpus) {
  for_sizes([](DType t, auto rows, auto n, auto gap) {
    for (const std::uint8_t flag : {0, 1}) {
      const std::int64_t inputs = flag == 1 ? 2 * n : n;
      const Buffer x = normal_in(t, "x", rows, inputs, gap), y = zeros_in(t, rows, n, gap);
      const Buffer dy = normal_in(t, "dy", rows, n), dx = zeros_in(t, rows, inputs);
      const Buffer bias = normal_in(t, "b", 1, inputs), dbias = normal("db", 1, inputs);
      expect_same(spec_in(t, K::activation_forward, {rows, n}, flag), {x, y}, {}, bound_of(t));
      expect_same(spec_in(t, K::activation_forward, {rows, n}, flag), {x, y, bias}, {},
                  bound_of(t));
      expect_same(spec_in(t, K::activation_backward, {rows, n}, flag), {x, dy, dx}, {},
                  bound_of(t));
      // Sums of rounded gradients: one that rounds the other way moves a sum by its last place.
      expect_same(spec_in(t, K::activation_backward, {rows, n}, flag), {x, dy, dx, bias, dbias}, {},
                  {bound_of(t).relative, t == DType::bf16 ? 0.03 : 0.004});
    }
  });
}

TEST(CudaRope, EqualsTheCpusForwardAndBackward) {
  for (const DType t : kTypes)
    for (const std::int64_t dim : {2, 6, 64}) {
      const std::int64_t sequence = 11, tokens = 22, heads = 9, kv = 3;
      const Buffer qkv = normal_in(t, "qkv", tokens, (heads + 2 * kv) * dim, 2);
      for (const K kind : {K::rope_forward, K::rope_backward})
        expect_same(spec_in(t, kind, {tokens, heads, kv, dim, sequence}, 0, 10000), {qkv}, {},
                    bound_of(t, 1e-6));
    }
}

TEST(CudaNorm, EqualsTheCpus) {
  for_sizes([](DType t, auto rows, auto n, auto gap) {
    for (const std::uint8_t flag : {0, 1}) {
      const std::int64_t scales = flag == 0 ? 2 : 1;
      const Buffer x = normal_in(t, "x", rows, n, gap), gamma = normal_in(t, "g", scales, n);
      const Buffer y = zeros_in(t, rows, n, gap), stats = zeros(rows, 2);
      const auto forward = expect_same(spec_in(t, K::norm_forward, {rows, n}, flag),
                                       {x, gamma, y, stats}, {}, bound_of(t));
      const Buffer dy = normal_in(t, "dy", rows, n), dgamma = normal("dg", scales, n);
      const Buffer residual = normal_in(t, "r", rows, n, gap);
      expect_same(spec_in(t, K::norm_backward, {rows, n}, flag),
                  {dy, x, forward[3], gamma, y, dgamma}, {}, bound_of(t, 1e-4));
      expect_same(spec_in(t, K::norm_backward, {rows, n}, flag),
                  {dy, x, forward[3], gamma, y, dgamma, residual}, {}, bound_of(t, 1e-4));
    }
  });
}

TEST(CudaSoftmax, EqualsTheCpus) {
  for (const DType t : kTypes)
    for (const std::int64_t sequence : {1, 5, 40, 300})
      for (const std::int64_t window : {0, 3, 33}) {
        const std::int64_t rows = sequence == 300 ? 300 : 2 * sequence;
        const Buffer x = normal_in(t, "s", rows, sequence, 1), y = zeros_in(t, rows, sequence);
        const KernelSpec spec = spec_in(t, K::softmax_forward, {rows, sequence, window}, 0, 0.125);
        const auto forward = expect_same(spec, {x, y}, {}, bound_of(t, 1e-6));
        KernelSpec back = spec;
        back.kind = K::softmax_backward;
        expect_same(back, {forward[1], x}, {}, bound_of(t, 1e-5));
      }
}

}  // namespace
}  // namespace trainyard::testing
