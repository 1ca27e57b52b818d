#include <cmath>

#include "tests/backends/cpu/kernels/harness.h"

namespace trainyard::testing {
namespace {

using K = KernelKind;

KernelContext context_of(std::int64_t batch, std::int64_t sequence, std::int64_t vocab) {
  KernelContext c;
  c.tokens = batch * sequence;
  c.sequence = sequence;
  c.vocab = vocab;
  return c;
}

TEST(Embedding, LooksUpItsRowsAndAddsTheirGradients) {
  KernelContext context = context_of(1, 3, 4);
  context.first_ids_row = 1;
  context.tensor_rank = 1;  // rows 2 and 3 of the table
  context.tensor_size = 2;
  Buffer tokens = ids(2, 4, {9, 9, 9, 9, 3, 0, 3, 2}), table(2, 2, {1, 2, 3, 4});
  Buffer out = zeros(3, 2), dtable(2, 2, {100, 0, 0, 0}), dout(3, 2, {1, 2, 10, 20, 100, 200});
  run(spec_of(K::embedding_forward, {3, 2}), {&tokens, &table, &out}, context);
  EXPECT_EQ(out.values, (std::vector<double>{3, 4, 0, 0, 3, 4}));
  run(spec_of(K::embedding_backward, {3, 2}), {&tokens, &dout, &dtable}, context);
  EXPECT_EQ(dtable.values, (std::vector<double>{100, 0, 101, 202}));
}

TEST(Embedding, PositionGradientsSumOverSequencesAndShards) {
  KernelContext context = context_of(2, 2, 1);
  Buffer dout(4, 1, {1, 2, 10, 20}), dpositions = zeros(2, 1);
  run(spec_of(K::embedding_backward, {4, 1}, 1), {&dout, &dpositions}, context);
  EXPECT_EQ(dpositions.values, (std::vector<double>{11, 22}));
  context.tensor_size = 2;
  context.tensor_rank = 1;  // rows 2 and 3: places 0 and 1 of the second sequence
  Buffer shard(2, 1, {5, 6}), sums = zeros(2, 1);
  run(spec_of(K::embedding_backward, {2, 1}, 1), {&shard, &sums}, context);
  EXPECT_EQ(sums.values, (std::vector<double>{5, 6}));
}

// A masked token is no target, and still what the next position reads.
TEST(Embedding, MaskedTokensAreInputsAllTheSame) {
  Buffer tokens = ids(1, 3, {~1, ~0, 1}), table(2, 1, {5, 7}), out = zeros(2, 1);
  run(spec_of(K::embedding_forward, {2, 1}), {&tokens, &table, &out}, context_of(1, 2, 2));
  EXPECT_EQ(out.values, (std::vector<double>{7, 5}));
}

struct Loss {
  double sum, valid;
  std::vector<Buffer> grads;  // a tensor rank each
};

// Cross-entropy over `ranks` tensor ranks: kernels on each, and the reductions between them.
Loss cross_entropy(const std::vector<Buffer>& parts, Buffer tokens, KernelContext context) {
  const std::int64_t rows = parts[0].rows, columns = parts[0].columns;
  Buffer maximum = zeros(rows, 1), sums = zeros(rows, 2), loss = zeros(1, 2);
  for (double& v : maximum.values) v = -INFINITY;
  context.tensor_size = static_cast<std::int64_t>(parts.size());
  const auto each_rank = [&](auto f) {
    for (std::size_t r = 0; r < parts.size(); ++r) {
      context.tensor_rank = static_cast<std::int64_t>(r);
      Buffer logits = parts[r];
      f(logits);
    }
  };
  each_rank([&](Buffer& logits) {
    Buffer mine = zeros(rows, 1);
    run(spec_of(K::loss_max, {rows, columns}), {&logits, &mine}, context);
    for (std::int64_t i = 0; i < rows; ++i)
      maximum.at(i, 0) = std::max(maximum.at(i, 0), mine.at(i, 0));
  });
  each_rank([&](Buffer& logits) {
    Buffer mine = zeros(rows, 2);
    run(spec_of(K::loss_sum, {rows, columns}), {&logits, &tokens, &maximum, &mine}, context);
    for (std::size_t i = 0; i < sums.values.size(); ++i) sums.values[i] += mine.values[i];
  });
  run(spec_of(K::loss_forward, {rows, 2}), {&tokens, &maximum, &sums, &loss}, context);
  Loss result{loss.at(0, 0), loss.at(0, 1), {}};
  each_rank([&](Buffer& logits) {
    Buffer grad = normal("g", rows, columns);
    run(spec_of(K::loss_backward, {rows, columns}), {&logits, &tokens, &maximum, &sums, &grad},
        context);
    result.grads.push_back(grad);
  });
  return result;
}

// ln(1 + e^-1 + e^-2 + e^-3) = 0.4401897. Feeding gathered logits to the vocabulary-parallel loss
// gives 1.1333369 instead, ln 2 more (Megatron-LM issue 7452).
TEST(CrossEntropy, TwoTensorRanksGiveTheLossOfTheWholeVocabulary) {
  const Buffer low(1, 2, {0, 1}), high(1, 2, {2, 3}), whole(1, 4, {0, 1, 2, 3});
  const KernelContext context = context_of(1, 1, 4);
  const Loss two = cross_entropy({low, high}, ids(1, 2, {0, 3}), context);
  const Loss one = cross_entropy({whole}, ids(1, 2, {0, 3}), context);
  EXPECT_NEAR(two.sum, 0.4401897, 5e-8);
  EXPECT_NEAR(one.sum, 0.4401897, 5e-8);
  EXPECT_EQ(two.valid, 1);
  // softmax - one-hot; e^3 / (1 + e + e^2 + e^3) = 0.6439143
  EXPECT_NEAR(two.grads[1].at(0, 1), 0.6439143 - 1, 5e-8);
  EXPECT_NEAR(two.grads[0].at(0, 0), one.grads[0].at(0, 0), 1e-15);
}

TEST(CrossEntropy, MaskedTargetsCountForNothing) {
  Buffer logits = normal("logits", 3, 5);
  KernelContext context = context_of(1, 3, 5);
  const Loss all = cross_entropy({logits}, ids(1, 4, {0, 1, 2, 3}), context);
  const Loss masked = cross_entropy({logits}, ids(1, 4, {0, 1, ~2, 3}), context);
  EXPECT_EQ(all.valid, 3);
  EXPECT_EQ(masked.valid, 2);
  for (std::int64_t j = 0; j < 5; ++j) {
    EXPECT_EQ(masked.grads[0].at(1, j), 0);
    EXPECT_EQ(masked.grads[0].at(0, j), all.grads[0].at(0, j));
  }
  const Loss none = cross_entropy({logits}, ids(1, 4, {0, ~1, ~2, ~3}), context);
  EXPECT_EQ(none.valid, 0);
  EXPECT_EQ(none.sum, 0);
}

// 5 ids on two ranks of 4 columns: three columns of the second are padding, whatever they hold.
TEST(CrossEntropy, PaddedColumnsHaveNoPartAndNoGradient) {
  Buffer whole = normal("logits", 2, 5), low = zeros(2, 4), high = normal("padding", 2, 4);
  for (std::int64_t i = 0; i < 2; ++i) {
    for (std::int64_t j = 0; j < 4; ++j) low.at(i, j) = whole.at(i, j);
    high.at(i, 0) = whole.at(i, 4);
    high.at(i, 1) = 1e3;
  }
  const KernelContext context = context_of(1, 2, 5);
  const Loss padded = cross_entropy({low, high}, ids(1, 3, {0, 4, 1}), context);
  const Loss exact = cross_entropy({whole}, ids(1, 3, {0, 4, 1}), context);
  EXPECT_NEAR(padded.sum, exact.sum, 1e-14);
  for (std::int64_t j = 1; j < 4; ++j) EXPECT_EQ(padded.grads[1].at(0, j), 0);
  // A rank with nothing but padding: 2 ids on two ranks of 4 columns.
  Buffer pair = zeros(2, 2);
  for (std::int64_t i = 0; i < 2; ++i)
    for (std::int64_t j = 0; j < 2; ++j) pair.at(i, j) = low.at(i, j);
  const Loss empty = cross_entropy({low, high}, ids(1, 3, {0, 1, 1}), context_of(1, 2, 2));
  EXPECT_NEAR(empty.sum, cross_entropy({pair}, ids(1, 3, {0, 1, 1}), context_of(1, 2, 2)).sum,
              1e-14);
}

TEST(CrossEntropy, BackwardIsTheDerivativeOfTheWeightedLoss) {
  Buffer logits = normal("logits", 6, 7);
  const Buffer tokens = ids(2, 4, {0, 1, 6, 3, 2, ~5, 0, 4});
  KernelContext context = context_of(2, 3, 7);
  context.loss_weight = 0.25;
  const auto loss = [&] { return 0.25 * cross_entropy({logits}, tokens, context).sum; };
  expect_gradient(loss, logits, cross_entropy({logits}, tokens, context).grads[0]);
}

TEST(CrossEntropy, LossesOfMicroBatchesAddUpAndNanShows) {
  Buffer tokens = ids(1, 2, {0, 0}), maximum(1, 1, {2}), sums(1, 2, {1, 2}), loss(1, 2, {5, 3});
  run(spec_of(K::loss_forward, {1, 2}), {&tokens, &maximum, &sums, &loss}, context_of(1, 1, 1));
  EXPECT_EQ(loss.values, (std::vector<double>{5, 4}));  // 2 + ln 1 - 2 = 0 more
  const Buffer logits(1, 2, {0, NAN});
  EXPECT_TRUE(std::isnan(cross_entropy({logits}, tokens, context_of(1, 1, 2)).sum));
}

TEST(CrossEntropy, LargeLogitsStayFiniteInFp32) {
  Buffer logits(1, 2, {1e4, -1e4}), maximum = zeros(1, 1), sums = zeros(1, 2), loss = zeros(1, 2);
  Buffer tokens = ids(1, 2, {0, 1});
  const KernelContext context = context_of(1, 1, 2);
  run_stored(spec_of(K::loss_max, {1, 2}), {&logits, &maximum}, context);
  run_stored(spec_of(K::loss_sum, {1, 2}), {&logits, &tokens, &maximum, &sums}, context);
  run_stored(spec_of(K::loss_forward, {1, 2}), {&tokens, &maximum, &sums, &loss}, context);
  EXPECT_EQ(loss.at(0, 0), 2e4);
}

}  // namespace
}  // namespace trainyard::testing
