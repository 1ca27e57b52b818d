#include "backends/cpu/kernels/attention.h"

#include "backends/cpu/kernels/bodies.h"

namespace trainyard {

HeadLayout fused_layout(const Launch& launch) {
  const auto& s = launch.spec.shape;
  check(s[2] > 0 && s[1] % s[2] == 0, "{} heads in {} groups", s[1], s[2]);
  const KernelContext& c = launch.context;
  const std::int64_t context = std::max<std::int64_t>(1, launch.spec.flag);
  check(context == c.context_size, "attention of {} context ranks on one of {}", context,
        c.context_size);
  return {s[0], s[1], s[2], s[3], s[4], s[5], context, c.context_rank};
}

namespace kernels {
namespace {

// Attention of a tile of queries with running maximum and sum (Dao, arXiv 2307.08691, algorithm
// 1): key tiles pass by, the square of scores never exists.
template <class T>
class ForwardTile {
  using C = Compute<T>;

 public:
  ForwardTile(const HeadLayout& heads, const DropoutDraws& draws)
      : h_(heads),
        draws_(draws),
        queries_(kQueries, heads.dim),
        sums_(kQueries, heads.dim),
        scores_(kQueries, kKeys) {}

  struct At {
    std::int64_t batch, head;
    HeadLayout::Run queries;
    std::int64_t sample, global_head;
  };

  void run(const At& at, View<const T> qkv, const KeysInOrder<T>& all, View<T> out, C* lse) {
    start(at, qkv);
    const auto [first_row, first, queries] = at.queries;
    const std::int64_t end = h_.last_key(first + queries - 1);
    for (std::int64_t k = h_.first_key(first) / kKeys * kKeys; k < end; k += kKeys)
      add_keys(at, k, std::min(kKeys, end - k), all);
    const View<T> to = rows_of(h_.head_of(out, at.batch, at.head), first_row, queries);
    for (std::int64_t i = 0; i < queries; ++i) {
      Span<C> row(sums_.view.row(i), h_.dim);
      row *= C{1} / total_[i];
      store(row.data(), h_.dim, to.row(i));
      lse[first_row + i] = largest_[i] + std::log(total_[i]);
    }
  }

 private:
  void start(const At& at, View<const T> qkv) {
    const View<const T> q =
        rows_of(h_.query(qkv, at.batch, at.head), at.queries.row, at.queries.count);
    const C scale = static_cast<C>(1 / std::sqrt(static_cast<double>(h_.dim)));
    for (std::int64_t i = 0; i < at.queries.count; ++i) {
      load(q.row(i), h_.dim, queries_.view.row(i));
      Span<C>(queries_.view.row(i), h_.dim) *= scale;
      largest_[i] = -std::numeric_limits<C>::infinity();
      total_[i] = 0;
    }
    std::fill(sums_.data.begin(), sums_.data.end(), C{0});
  }

  void add_keys(const At& at, std::int64_t first, std::int64_t keys, const KeysInOrder<T>& all) {
    const std::int64_t kv = h_.kv_head(at.head), queries = at.queries.count;
    const auto key = converted(Factor<T>{rows_of(all.key(at.batch, kv), first, keys), true}, keys_);
    const auto value = converted(Factor<T>{rows_of(all.value(at.batch, kv), first, keys)}, values_);
    const View<C> scores{scores_.view.data, queries, keys, kKeys};
    as_matrix(scores).setZero();
    multiply_add({{queries_.view.data, queries, h_.dim, h_.dim}}, key, scores);
    for (std::int64_t i = 0; i < queries; ++i) weigh(at, i, first, scores);
    multiply_add({{scores.data, queries, keys, kKeys}}, value, rows_of(sums_.view, 0, queries));
  }

  // Scores of a query become weights relative to its running maximum.
  void weigh(const At& at, std::int64_t i, std::int64_t first, View<C> scores) {
    const std::int64_t query = at.queries.first + i;
    C* row = scores.row(i);
    const std::int64_t low =
        std::clamp<std::int64_t>(h_.first_key(query) - first, 0, scores.columns);
    const std::int64_t high =
        std::clamp<std::int64_t>(h_.last_key(query) - first, low, scores.columns);
    std::fill(row, row + low, C{0});
    std::fill(row + high, row + scores.columns, C{0});
    if (low == high) return;
    const C before = largest_[i];
    largest_[i] = std::max(before, largest(row + low, high - low));
    for (std::int64_t j = low; j < high; ++j) row[j] -= largest_[i];
    exp_each(row + low, high - low);
    const C shrink = std::exp(before - largest_[i]);
    total_[i] = total_[i] * shrink + sum_of<C>(high - low, [&](auto j) { return row[low + j]; });
    Span<C>(sums_.view.row(i), h_.dim) *= shrink;
    if (!draws_.any()) return;
    std::array<std::uint8_t, kKeys> keep;
    draws_.keep(at.sample, at.global_head * h_.sequence + query, first,
                {keep.data(), static_cast<std::size_t>(scores.columns)});
    const C scale = static_cast<C>(draws_.scale());
    for (std::int64_t j = low; j < high; ++j) row[j] *= keep[j] != 0 ? scale : C{0};
  }

  const HeadLayout& h_;
  const DropoutDraws& draws_;
  Scratch<C> queries_, sums_, scores_;
  std::vector<C> keys_, values_;
  std::array<C, kQueries> largest_{}, total_{};
};

}  // namespace

void attention_forward(const Launch& launch) {
  with_storage(launch, launch.spec.dtype, [&](auto type) {
    using T = decltype(type);
    using C = Compute<T>;
    const HeadLayout h = fused_layout(launch);
    const std::int64_t tokens = h.batch * h.own();
    const std::size_t gathered = h.context > 1 ? 1 : 0;  // operands of what was gathered
    const auto qkv = operand<const T>(launch, 0, tokens, h.qkv_columns());
    const auto out = operand<T>(launch, 1 + gathered, tokens, h.query_columns());
    const auto lse = operand<C>(launch, 2 + gathered, h.batch * h.heads, h.own());
    const KeysInOrder<T> keys(h, qkv, gathered_keys<T>(launch, h, 1));
    const DropoutDraws draws(launch);
    const std::int64_t of_run = (h.run(0).count + kQueries - 1) / kQueries;
    const std::int64_t tiles = of_run * h.runs();
    for_ranges(launch, h.batch * h.heads * tiles, 8, [&](std::int64_t from, std::int64_t to) {
      ForwardTile<T> tile(h, draws);
      for (std::int64_t i = from; i < to; ++i) {
        const std::int64_t skip = i % of_run * kQueries, head = i / tiles % h.heads;
        const std::int64_t b = i / tiles / h.heads;
        const auto [row, first, count] = h.run(i / of_run % h.runs());
        tile.run({b,
                  head,
                  {row + skip, first + skip, std::min(kQueries, count - skip)},
                  launch.context.first_sample + b,
                  launch.context.tensor_rank * h.heads + head},
                 qkv, keys, out, lse.row(b * h.heads + head));
      }
    });
  });
}

}  // namespace kernels
}  // namespace trainyard
