#include "backends/cpu/kernels/attention.h"

#include "backends/cpu/kernels/bodies.h"

namespace trainyard {

HeadLayout fused_layout(const Launch& launch) {
  const auto& s = launch.spec.shape;
  check(s[2] > 0 && s[1] % s[2] == 0, "{} heads in {} groups", s[1], s[2]);
  return {s[0], s[1], s[2], s[3], s[4], s[5]};
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
    std::int64_t batch, head, first, queries;
    std::int64_t sample, global_head;
  };

  void run(const At& at, View<const T> qkv, View<T> out, C* lse) {
    start(at, qkv);
    const std::int64_t end = h_.last_key(at.first + at.queries - 1);
    for (std::int64_t k = h_.first_key(at.first) / kKeys * kKeys; k < end; k += kKeys)
      add_keys(at, k, std::min(kKeys, end - k), qkv);
    const View<T> to = rows_of(h_.head_of(out, at.batch, at.head), at.first, at.queries);
    for (std::int64_t i = 0; i < at.queries; ++i) {
      Span<C> row(sums_.view.row(i), h_.dim);
      row *= C{1} / total_[i];
      store(row.data(), h_.dim, to.row(i));
      lse[at.first + i] = largest_[i] + std::log(total_[i]);
    }
  }

 private:
  void start(const At& at, View<const T> qkv) {
    const View<const T> q = rows_of(h_.query(qkv, at.batch, at.head), at.first, at.queries);
    const C scale = static_cast<C>(1 / std::sqrt(static_cast<double>(h_.dim)));
    for (std::int64_t i = 0; i < at.queries; ++i) {
      load(q.row(i), h_.dim, queries_.view.row(i));
      Span<C>(queries_.view.row(i), h_.dim) *= scale;
      largest_[i] = -std::numeric_limits<C>::infinity();
      total_[i] = 0;
    }
    std::fill(sums_.data.begin(), sums_.data.end(), C{0});
  }

  void add_keys(const At& at, std::int64_t first, std::int64_t keys, View<const T> qkv) {
    const std::int64_t kv = h_.kv_head(at.head);
    const auto key =
        converted(Factor<T>{rows_of(h_.key(qkv, at.batch, kv), first, keys), true}, keys_);
    const auto value =
        converted(Factor<T>{rows_of(h_.value(qkv, at.batch, kv), first, keys)}, values_);
    const View<C> scores{scores_.view.data, at.queries, keys, kKeys};
    const View<C> queries = rows_of(queries_.view, 0, at.queries);
    as_matrix(scores).setZero();
    multiply_add({{queries.data, at.queries, h_.dim, h_.dim}}, key, scores);
    for (std::int64_t i = 0; i < at.queries; ++i) weigh(at, i, first, scores);
    multiply_add({{scores.data, at.queries, keys, kKeys}}, value,
                 rows_of(sums_.view, 0, at.queries));
  }

  // Scores of a query become weights relative to its running maximum.
  void weigh(const At& at, std::int64_t i, std::int64_t first, View<C> scores) {
    const std::int64_t query = at.first + i;
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
    const std::int64_t tokens = h.batch * h.sequence;
    const auto qkv = operand<const T>(launch, 0, tokens, h.qkv_columns());
    const auto out = operand<T>(launch, 1, tokens, h.query_columns());
    const auto lse = operand<C>(launch, 2, h.batch * h.heads, h.sequence);
    const DropoutDraws draws(launch);
    const std::int64_t tiles = (h.sequence + kQueries - 1) / kQueries;
    for_ranges(launch, h.batch * h.heads * tiles, 8, [&](std::int64_t from, std::int64_t to) {
      ForwardTile<T> tile(h, draws);
      for (std::int64_t i = from; i < to; ++i) {
        const std::int64_t first = i % tiles * kQueries, head = i / tiles % h.heads;
        const std::int64_t b = i / tiles / h.heads;
        tile.run({b, head, first, std::min(kQueries, h.sequence - first),
                  launch.context.first_sample + b, launch.context.tensor_rank * h.heads + head},
                 qkv, out, lse.row(b * h.heads + head));
      }
    });
  });
}

}  // namespace kernels
}  // namespace trainyard
