#include <cmath>

#include "tests/backends/cpu/kernels/harness.h"

namespace trainyard::testing {
namespace {

using K = KernelKind;

struct Shape {
  std::int64_t batch, heads, kv_heads, sequence, dim, window;
  double dropout = 0;
  std::int64_t tokens() const { return batch * sequence; }
  std::int64_t query() const { return heads * dim; }
  std::int64_t qkv() const { return (heads + 2 * kv_heads) * dim; }
  KernelContext context() const {
    KernelContext c;
    c.seed = 5;
    c.step = 3;
    c.tokens = tokens();
    c.sequence = sequence;
    c.first_sample = 7;
    return c;
  }
};

// Windows below, at and above the sequence, one key head, one row, and several tiles of 64 queries
// and 128 keys.
const Shape kShapes[] = {
    {1, 1, 1, 1, 1, 0},        {2, 2, 2, 5, 3, 0},       {1, 4, 2, 7, 4, 0},
    {1, 3, 1, 13, 2, 4},       {2, 2, 1, 11, 5, 1},      {1, 2, 2, 6, 4, 50},
    {1, 2, 2, 9, 4, 0, 0.3},   {2, 4, 2, 10, 3, 5, 0.5}, {1, 2, 1, 301, 8, 0},
    {1, 2, 1, 301, 8, 67},     {1, 1, 1, 64, 4, 64},     {1, 1, 1, 129, 4, 129},
    {1, 2, 1, 203, 8, 90, 0.2}};

KernelSpec fused(K kind, const Shape& s) {
  KernelSpec spec = spec_of(kind, {s.batch, s.heads, s.kv_heads, s.sequence, s.dim, s.window});
  spec.parameter = s.dropout;
  spec.site = 2;
  return spec;
}

struct Result {
  Buffer out, dqkv;
};

Result run_fused(const Shape& s, Buffer qkv, Buffer dout) {
  Result r{zeros(s.tokens(), s.query(), 2), zeros(s.tokens(), s.qkv(), 1)};
  Buffer lse = zeros(s.batch * s.heads, s.sequence);
  run(fused(K::attention_forward, s), {&qkv, &r.out, &lse}, s.context());
  run(fused(K::attention_backward, s), {&qkv, &r.out, &lse, &dout, &r.dqkv}, s.context());
  return r;
}

Result run_unfused(const Shape& s, Buffer qkv, Buffer dout) {
  const std::int64_t heads = s.batch * s.heads, rows = heads * s.sequence;
  Buffer scores = zeros(rows, s.sequence), p = scores, dropped = scores, grad = scores;
  Buffer mask = bytes(rows, s.sequence);
  Result r{zeros(s.tokens(), s.query()), zeros(s.tokens(), s.qkv())};
  const auto over = [&](K kind, std::int64_t last, double parameter) {
    KernelSpec spec = spec_of(kind, {rows, s.sequence, last}, 0, parameter);
    spec.site = 2;
    return spec;
  };
  const double scale = 1 / std::sqrt(static_cast<double>(s.dim));
  const auto product = [&](K kind, std::int64_t n, std::int64_t k) {
    return spec_of(kind, {heads, s.sequence, n, k});
  };
  run(product(K::attention_scores, s.sequence, s.dim), {&qkv, &scores}, s.context());
  run(over(K::softmax_forward, s.window, scale), {&scores, &p}, s.context());
  run(over(K::dropout_forward, s.heads, s.dropout), {&p, &dropped, &mask}, s.context());
  run(product(K::attention_context, s.dim, s.sequence), {&qkv, &dropped, &r.out}, s.context());
  run(product(K::attention_context_grad, s.dim, s.sequence),
      {&qkv, &dropped, &dout, &grad, &r.dqkv}, s.context());
  run(over(K::dropout_backward, s.heads, s.dropout), {&mask, &grad}, s.context());
  run(over(K::softmax_backward, s.window, scale), {&p, &grad}, s.context());
  run(product(K::attention_scores_grad, s.sequence, s.dim), {&qkv, &grad, &r.dqkv}, s.context());
  return r;
}

TEST(Attention, FusedEqualsUnfusedForwardAndBackward) {
  for (const Shape& s : kShapes) {
    const Buffer qkv = normal("qkv", s.tokens(), s.qkv(), 3);
    const Buffer dout = normal("dout", s.tokens(), s.query(), 1);
    const Result a = run_fused(s, qkv, dout), b = run_unfused(s, qkv, dout);
    EXPECT_LT(difference(a.out, b.out), 1e-12) << s.sequence << " " << s.window;
    EXPECT_LT(difference(a.dqkv, b.dqkv), 1e-12) << s.sequence << " " << s.window;
  }
}

TEST(Attention, BackwardIsTheDerivativeOfForward) {
  for (const Shape& s : kShapes) {
    if (s.sequence > 20) continue;
    Buffer qkv = normal("qkv", s.tokens(), s.qkv());
    const Buffer dout = normal("dout", s.tokens(), s.query());
    const Buffer gradient = run_fused(s, qkv, dout).dqkv;
    const auto loss = [&] {
      Buffer out = zeros(s.tokens(), s.query()), lse = zeros(s.batch * s.heads, s.sequence);
      run(fused(K::attention_forward, s), {&qkv, &out, &lse}, s.context());
      return dot(out, dout);
    };
    expect_gradient(loss, qkv, gradient);
  }
}

// Head size 1, so scores are q k. Query 1 scores 0 and ln 3, hence weights 1/4 and 3/4 of the
// values 8 and 4: 5. Query 0 sees itself only. Log-sum-exp: 0 and ln 4.
TEST(Attention, TwoTokensByHand) {
  const double log3 = std::log(3.0);
  Buffer qkv(2, 3, {1, 0, 8, 1, log3, 4}), out = zeros(2, 1), lse = zeros(1, 2);
  run(fused(K::attention_forward, {1, 1, 1, 2, 1, 0}), {&qkv, &out, &lse});
  EXPECT_NEAR(out.at(0, 0), 8, 1e-14);
  EXPECT_NEAR(out.at(1, 0), 5, 1e-14);
  EXPECT_NEAR(lse.at(0, 0), 0, 1e-14);
  EXPECT_NEAR(lse.at(0, 1), std::log(4.0), 1e-14);
}

TEST(Attention, WindowOfOneCopiesTheValues) {
  const Shape s{1, 2, 1, 9, 2, 1};
  Buffer qkv = normal("qkv", 9, s.qkv());
  const Buffer out = run_fused(s, qkv, zeros(9, s.query())).out;
  for (std::int64_t r = 0; r < 9; ++r)
    for (std::int64_t j = 0; j < s.query(); ++j)
      EXPECT_EQ(out.at(r, j), qkv.at(r, 6 + j % 2));  // two query heads and a key head come first
}

TEST(Attention, WindowOfTheSequenceIsFullAttention) {
  const Shape window{1, 2, 2, 140, 4, 140}, full{1, 2, 2, 140, 4, 0};
  const Buffer qkv = normal("qkv", 140, full.qkv()), dout = normal("dout", 140, full.query());
  const Result a = run_fused(window, qkv, dout), b = run_fused(full, qkv, dout);
  EXPECT_EQ(a.out.values, b.out.values);
  EXPECT_LT(difference(a.dqkv, b.dqkv), 1e-14);
}

// A key that is seen by no query of a window has no say: changing it changes nothing.
TEST(Attention, NoQuerySeesLaterKeysOrKeysBeforeItsWindow) {
  const Shape s{1, 1, 1, 200, 2, 70};
  Buffer qkv = normal("qkv", 200, s.qkv());
  const Buffer dout = normal("dout", 200, 2), before = run_fused(s, qkv, dout).out;
  for (std::int64_t j = 2; j < 6; ++j) qkv.at(100, j) += 1;
  const Buffer after = run_fused(s, qkv, dout).out;
  for (std::int64_t r = 0; r < 200; ++r) {
    const bool sees = r >= 100 && r < 170;
    EXPECT_EQ(sees, after.at(r, 0) != before.at(r, 0)) << r;
  }
}

TEST(Attention, LargeScoresStayFinite) {
  const Shape s{1, 1, 1, 150, 2, 0};
  Buffer qkv = normal("qkv", 150, s.qkv());
  for (double& v : qkv.values) v *= 1e3;
  Buffer out = zeros(150, 2), lse = zeros(1, 150);
  KernelSpec spec = fused(K::attention_forward, s);
  run_stored(spec, {&qkv, &out, &lse}, s.context());
  for (const double v : out.values) EXPECT_TRUE(std::isfinite(v));
}

// Tensor rank r holds query heads [2r, 2r + 2) and key head r; together they compute what one rank
// does, dropout included.
TEST(Attention, HeadsOfTwoTensorRanksDrawAsOneRankDoes) {
  const Shape whole{1, 4, 2, 12, 3, 0, 0.4}, half{1, 2, 1, 12, 3, 0, 0.4};
  const Buffer qkv = normal("qkv", 12, whole.qkv()), dout = normal("dout", 12, whole.query());
  const Result one = run_fused(whole, qkv, dout);
  for (std::int64_t rank = 0; rank < 2; ++rank) {
    Buffer part = zeros(12, half.qkv()), out = zeros(12, half.query()), lse = zeros(2, 12);
    for (std::int64_t r = 0; r < 12; ++r)
      for (std::int64_t j = 0; j < half.qkv(); ++j)
        part.at(r, j) = j < 6   ? qkv.at(r, rank * 6 + j)
                        : j < 9 ? qkv.at(r, 12 + rank * 3 + j - 6)
                                : qkv.at(r, 18 + rank * 3 + j - 9);
    KernelContext context = half.context();
    context.tensor_rank = rank;
    context.tensor_size = 2;
    run(fused(K::attention_forward, half), {&part, &out, &lse}, context);
    for (std::int64_t r = 0; r < 12; ++r)
      for (std::int64_t j = 0; j < 6; ++j)
        EXPECT_NEAR(out.at(r, j), one.out.at(r, rank * 6 + j), 1e-13);
  }
}

// The own tokens of a context rank, of rows of all tokens.
Buffer own_rows(const Buffer& all, const Shape& s, const ContextTokens& of, std::int64_t rank) {
  Buffer own = zeros(s.batch * of.own(), all.columns);
  for (std::int64_t b = 0; b < s.batch; ++b)
    for (std::int64_t i = 0; i < of.own(); ++i)
      for (std::int64_t j = 0; j < all.columns; ++j)
        own.at(b * of.own() + i, j) = all.at(b * s.sequence + of.place(rank, i), j);
  return own;
}

// Keys and values of all context ranks, rank by rank, as an all-gather leaves them.
Buffer gathered(const Buffer& qkv, const Shape& s, const ContextTokens& of) {
  const std::int64_t columns = 2 * s.kv_heads * s.dim;
  Buffer kv = zeros(s.tokens(), columns);
  for (std::int64_t rank = 0; rank < of.ranks; ++rank) {
    const Buffer own = own_rows(qkv, s, of, rank);
    for (std::int64_t r = 0; r < own.rows; ++r)
      for (std::int64_t j = 0; j < columns; ++j)
        kv.at(rank * own.rows + r, j) = own.at(r, s.query() + j);
  }
  return kv;
}

// What every rank computes of its queries is what one rank does of them; gradients of keys and
// values add up over the ranks. Pieces of one token, shorter and longer than tiles and windows.
TEST(Attention, ContextRanksTogetherDoWhatOneDoes) {
  const std::pair<Shape, std::int64_t> cases[] = {
      {{1, 1, 1, 4, 2, 0}, 2},      {{2, 4, 2, 12, 3, 0}, 2},   {{2, 2, 1, 24, 4, 5, 0.4}, 3},
      {{1, 2, 1, 408, 8, 0}, 2},    {{1, 2, 1, 408, 8, 67}, 2}, {{1, 1, 1, 560, 4, 300}, 4},
      {{2, 2, 2, 40, 4, 0, 0.3}, 4}};
  for (const auto& [s, ranks] : cases) {
    SCOPED_TRACE(::testing::Message() << s.sequence << " over " << ranks << " window " << s.window);
    const ContextTokens of{s.sequence, ranks};
    const Buffer qkv = normal("qkv", s.tokens(), s.qkv());
    const Buffer dout = normal("dout", s.tokens(), s.query());
    const Result one = run_fused(s, qkv, dout);
    const Buffer kv = gathered(qkv, s, of), expected_dkv = gathered(one.dqkv, s, of);
    Buffer dkv_sum = zeros(kv.rows, kv.columns);
    for (std::int64_t rank = 0; rank < ranks; ++rank) {
      KernelContext context = s.context();
      context.tokens /= ranks;
      context.context_rank = rank;
      context.context_size = ranks;
      KernelSpec spec = fused(K::attention_forward, s);
      spec.flag = static_cast<std::uint8_t>(ranks);
      Buffer own = own_rows(qkv, s, of, rank), own_dout = own_rows(dout, s, of, rank), all = kv;
      Buffer out = zeros(own.rows, s.query()), lse = zeros(s.batch * s.heads, of.own());
      Buffer dqkv = zeros(own.rows, s.qkv()), dkv = zeros(kv.rows, kv.columns);
      run(spec, {&own, &all, &out, &lse}, context);
      spec.kind = K::attention_backward;
      run(spec, {&own, &all, &out, &lse, &own_dout, &dqkv, &dkv}, context);
      EXPECT_LT(difference(out, own_rows(one.out, s, of, rank)), 1e-12);
      const Buffer expected = own_rows(one.dqkv, s, of, rank);
      for (std::int64_t r = 0; r < own.rows; ++r)
        for (std::int64_t j = 0; j < s.query(); ++j)
          EXPECT_NEAR(dqkv.at(r, j), expected.at(r, j), 1e-12);
      for (std::size_t i = 0; i < dkv.values.size(); ++i) dkv_sum.values[i] += dkv.values[i];
    }
    EXPECT_LT(difference(dkv_sum, expected_dkv), 1e-12);
  }
}

// fp32 sums of 16-bit operands, rounded once: half a unit in the last place of values below 4, and
// weights of probabilities that are themselves fp32.
TEST(Attention, SixteenBitStorageStaysWithinRounding) {
  const Shape s{1, 2, 1, 150, 16, 0};
  for (const auto& [dtype, unit] : {std::pair{DType::bf16, 0x1p-8}, {DType::fp16, 0x1p-11}}) {
    Buffer qkv = normal("qkv", 150, s.qkv());
    for (double& v : qkv.values) v = rounded(v, dtype);
    const Buffer exact = run_fused(s, qkv, zeros(150, s.query())).out;
    Buffer out = zeros(150, s.query()), lse = zeros(2, 150);
    KernelSpec spec = fused(K::attention_forward, s);
    spec.dtype = dtype;
    run_stored(spec, {&qkv, &out, &lse}, s.context(), {2});
    EXPECT_LT(difference(out, exact), unit * 4 + 1e-5);
    EXPECT_GT(difference(out, exact), unit / 8);
  }
}

TEST(Softmax, RowsSumToOneOverTheKeysTheySee) {
  constexpr std::int64_t kKeys = 5;
  Buffer scores = normal("scores", 2 * kKeys, kKeys), p = zeros(2 * kKeys, kKeys, 1);
  run(spec_of(K::softmax_forward, {2 * kKeys, kKeys, 3}, 0, 0.5), {&scores, &p});
  for (std::int64_t r = 0; r < 2 * kKeys; ++r) {
    double sum = 0;
    for (std::int64_t j = 0; j < kKeys; ++j) {
      const std::int64_t query = r % kKeys;
      EXPECT_EQ(p.at(r, j) > 0, j <= query && j > query - 3);
      sum += p.at(r, j);
    }
    EXPECT_NEAR(sum, 1, 1e-14);
  }
}

TEST(Softmax, BackwardIsTheDerivativeOfForward) {
  constexpr std::int64_t kKeys = 7;
  Buffer scores = normal("scores", 2 * kKeys, kKeys), p = zeros(2 * kKeys, kKeys);
  const Buffer weights = normal("dp", 2 * kKeys, kKeys);
  const KernelSpec forward = spec_of(K::softmax_forward, {2 * kKeys, kKeys, 4}, 0, 0.7);
  const auto loss = [&] {
    Buffer out = zeros(2 * kKeys, kKeys);
    run(forward, {&scores, &out});
    return dot(out, weights);
  };
  run(forward, {&scores, &p});
  Buffer grad = weights;
  run(spec_of(K::softmax_backward, {2 * kKeys, kKeys, 4}, 0, 0.7), {&p, &grad});
  expect_gradient(loss, scores, grad);
}

}  // namespace
}  // namespace trainyard::testing
