#include <cmath>

#include "core/random.h"
#include "tests/backends/cpu/kernels/harness.h"

namespace trainyard::testing {
namespace {

using K = KernelKind;

KernelContext context_of(std::int64_t batch, std::int64_t sequence) {
  KernelContext c;
  c.seed = 11;
  c.step = 4;
  c.tokens = batch * sequence;
  c.sequence = sequence;
  return c;
}

// Mask of residual dropout on all rows of a micro-batch.
Buffer mask_of(const KernelContext& context, std::int64_t rows, std::int64_t columns,
               std::uint32_t site = 3) {
  Buffer x = zeros(rows, columns), residual = x, out = x, mask = bytes(rows, columns);
  KernelSpec spec = spec_of(K::residual_forward, {rows, columns}, 0, 0.5);
  spec.site = site;
  run(spec, {&x, &residual, &out, &mask}, context);
  return mask;
}

TEST(Dropout, KeepsAndScalesByTheMask) {
  const KernelContext context = context_of(2, 50);
  Buffer x = normal("x", 100, 33, 1), y = zeros(100, 33, 2), mask = bytes(100, 33);
  run(spec_of(K::dropout_forward, {100, 33}, 0, 0.2), {&x, &y, &mask}, context);
  double kept = 0;
  for (std::int64_t i = 0; i < 100; ++i)
    for (std::int64_t j = 0; j < 33; ++j) {
      EXPECT_DOUBLE_EQ(y.at(i, j), mask.at(i, j) * x.at(i, j) / 0.8);
      kept += mask.at(i, j);
    }
  EXPECT_NEAR(kept / 3300, 0.8, 5 * std::sqrt(0.16 / 3300));  // five standard errors
  Buffer in_place = x, again = bytes(100, 33), dx = x;
  run(spec_of(K::dropout_forward, {100, 33}, 0, 0.2), {&in_place, &again}, context);
  run(spec_of(K::dropout_backward, {100, 33}, 0, 0.2), {&mask, &dx}, context);
  EXPECT_EQ(again.values, mask.values);
  EXPECT_EQ(difference(in_place, y), 0);
  EXPECT_EQ(difference(dx, y), 0);
}

// What the CUDA kernels have to reproduce: column 4 b + l of a row is word l of block b.
TEST(Dropout, DrawsAreTheDocumentedPhiloxWords) {
  KernelContext context = context_of(1, 3);
  context.first_sample = 9;
  const Buffer mask = mask_of(context, 3, 10);
  for (std::uint64_t row = 0; row < 3; ++row)
    for (std::uint64_t j = 0; j < 10; ++j) {
      const PhiloxBlock words = dropout_words(dropout_key(11, 4, 3), 9, row, j / 4);
      EXPECT_EQ(mask.at(row, j), words[j % 4] >= 0x80000000U ? 1 : 0);
    }
}

TEST(Dropout, SeedStepSiteSampleAndPlaceAllCount) {
  const KernelContext context = context_of(1, 4);
  const Buffer mask = mask_of(context, 4, 64);
  KernelContext other = context;
  other.seed = 12;
  EXPECT_NE(mask_of(other, 4, 64).values, mask.values);
  other = context;
  other.step = 5;
  EXPECT_NE(mask_of(other, 4, 64).values, mask.values);
  other = context;
  other.first_sample = 1;
  EXPECT_NE(mask_of(other, 4, 64).values, mask.values);
  EXPECT_NE(mask_of(context, 4, 64, 4).values, mask.values);
  EXPECT_NE(std::vector(mask.values.begin(), mask.values.begin() + 64),
            std::vector(mask.values.begin() + 64, mask.values.begin() + 128));
}

// Sequence shards are cut into row blocks that the ranks share: with 12 rows, 2 ranks and 2 parts,
// rank 0 holds rows 0-2 and 6-8, rank 1 rows 3-5 and 9-11.
TEST(Dropout, SequenceShardsDrawTheirRowsOfTheWhole) {
  KernelContext context = context_of(3, 4);
  const Buffer whole = mask_of(context, 12, 20);
  context.tensor_size = 2;
  context.parts = 2;
  const std::int64_t rows[2][6] = {{0, 1, 2, 6, 7, 8}, {3, 4, 5, 9, 10, 11}};
  for (std::int64_t rank = 0; rank < 2; ++rank) {
    context.tensor_rank = rank;
    const Buffer shard = mask_of(context, 6, 20);
    for (std::int64_t r = 0; r < 6; ++r)
      for (std::int64_t j = 0; j < 20; ++j) EXPECT_EQ(shard.at(r, j), whole.at(rows[rank][r], j));
    EXPECT_EQ(mask_of(context, 12, 20).values, whole.values);  // a buffer of all rows is in order
  }
}

// The same four sequences as one micro-batch, or as two that follow each other.
TEST(Dropout, MicroBatchesDrawBySample) {
  const Buffer whole = mask_of(context_of(4, 5), 20, 8);
  KernelContext second = context_of(2, 5);
  second.first_sample = 2;
  const Buffer half = mask_of(second, 10, 8);
  EXPECT_TRUE(std::equal(half.values.begin(), half.values.end(), whole.values.begin() + 80));
}

TEST(Dropout, RowsThatAreNoShardOfTheMicroBatchAreRefused) {
  EXPECT_THROW(mask_of(context_of(1, 4), 3, 2), std::logic_error);
}

TEST(Residual, AddsBiasAndDropsTheBranch) {
  const KernelContext context = context_of(1, 6);
  Buffer x = normal("x", 6, 9, 1), residual = normal("r", 6, 9, 2), bias = normal("b", 1, 9);
  Buffer out = zeros(6, 9, 1), mask = bytes(6, 9);
  run(spec_of(K::residual_forward, {6, 9}, 1, 0.25), {&x, &residual, &out, &bias, &mask}, context);
  for (std::int64_t i = 0; i < 6; ++i)
    for (std::int64_t j = 0; j < 9; ++j)
      EXPECT_NEAR(out.at(i, j),
                  residual.at(i, j) + mask.at(i, j) * (x.at(i, j) + bias.at(0, j)) / 0.75, 1e-14);
  run(spec_of(K::residual_forward, {6, 9}), {&x, &residual, &out});
  EXPECT_DOUBLE_EQ(out.at(5, 8), residual.at(5, 8) + x.at(5, 8));
}

TEST(Residual, BackwardIsTheDerivativeOfForward) {
  const KernelContext context = context_of(2, 3);
  for (const double p : {0.0, 0.4}) {
    Buffer x = normal("x", 6, 5), residual = normal("r", 6, 5), bias = normal("b", 1, 5);
    Buffer dout = normal("dout", 6, 5), mask = bytes(6, 5);
    const KernelSpec spec = spec_of(K::residual_forward, {6, 5}, 1, p);
    const auto loss = [&] {
      Buffer out = zeros(6, 5);
      std::vector<Buffer*> operands{&x, &residual, &out, &bias};
      if (p > 0) operands.push_back(&mask);
      run(spec, operands, context);
      return dot(out, dout);
    };
    loss();
    Buffer dx = zeros(6, 5), dbias = zeros(1, 5);
    KernelSpec back = spec;
    back.kind = K::residual_backward;
    if (p > 0)
      run(back, {&dout, &mask, &dx, &dbias}, context);
    else
      run(back, {&dout, &dbias}, context);
    expect_gradient(loss, bias, dbias);
    if (p > 0) expect_gradient(loss, x, dx);
    expect_gradient(loss, residual, dout);
  }
}

}  // namespace
}  // namespace trainyard::testing
