#include "backends/cpu/kernels/attention.h"
#include "backends/cpu/kernels/bodies.h"

namespace trainyard::kernels {
namespace {

template <class T>
struct Operands {
  View<const T> qkv, out;
  View<const Compute<T>> lse;
  View<const T> dout;
  View<T> dqkv, dkv;  // dkv: of context ranks, gradients of all keys and values
};

// Gradients of one key head of one sequence and of the query heads that share it: scores are
// computed again tile by tile from the saved log-sum-exp (Dao, arXiv 2307.08691, algorithm 2).
template <class T>
class KeyHead {
  using C = Compute<T>;

 public:
  KeyHead(const HeadLayout& heads, const Operands<T>& operands, const KeysInOrder<T>& keys,
          const Launch& launch)
      : h_(heads),
        keys_(keys),
        o_(operands),
        context_(launch.context),
        draws_(launch),
        scale_(static_cast<C>(1 / std::sqrt(static_cast<double>(heads.dim)))),
        dq_(heads.own(), heads.dim),
        dk_(heads.sequence, heads.dim),
        dv_(heads.sequence, heads.dim),
        weights_(kQueries, kKeys),
        dscores_(kQueries, kKeys),
        delta_(static_cast<std::size_t>(heads.own())) {}

  void run(std::int64_t b, std::int64_t kv) {
    batch_ = b;
    key_ = converted(Factor<T>{keys_.key(b, kv)}, key_buffer_).stored;
    value_ = converted(Factor<T>{keys_.value(b, kv)}, value_buffer_).stored;
    const std::int64_t group = h_.heads / h_.kv_heads;
    for (std::int64_t head = kv * group; head < (kv + 1) * group; ++head) query_head(head);
    write(dk_.view, scale_, [&](auto i) { return gradient(h_.key(o_.dqkv, b, kv), kv, i); });
    write(dv_.view, C{1},
          [&](auto i) { return gradient(h_.value(o_.dqkv, b, kv), h_.kv_heads + kv, i); });
  }

 private:
  // Where the gradient of the key or value at a place goes: `own`, or to all ranks' head `head`.
  T* gradient(View<T> own, std::int64_t head, std::int64_t place) const {
    if (h_.context == 1) return own.row(place);
    return &o_.dkv.at(h_.gathered_row(batch_, place), head * h_.dim);
  }

  void query_head(std::int64_t head) {
    head_ = head;
    query_ = converted(Factor<T>{h_.query(o_.qkv, batch_, head)}, query_buffer_).stored;
    dout_ = converted(Factor<T>{h_.head_of(o_.dout, batch_, head)}, dout_buffer_).stored;
    const View<const T> out = h_.head_of(o_.out, batch_, head);
    InRow<T> in(h_.dim);
    for (std::int64_t i = 0; i < h_.own(); ++i) {
      const C* x = in(out.row(i));
      const C* dx = dout_.row(i);
      delta_[i] = sum_of<C>(h_.dim, [&](auto j) { return x[j] * dx[j]; });
    }
    std::fill(dq_.data.begin(), dq_.data.end(), C{0});
    for (std::int64_t k = 0; k < h_.sequence; k += kKeys)
      for (std::int64_t i = 0; i < h_.runs(); ++i)
        key_tile(h_.run(i), k, std::min(kKeys, h_.sequence - k));
    const View<T> to = h_.query(o_.dqkv, batch_, head);
    write(dq_.view, scale_, [&](auto i) { return to.row(i); });
  }

  void key_tile(const HeadLayout::Run& run, std::int64_t k, std::int64_t keys) {
    // The first query tile that sees a key of this tile, and the last query that does.
    const std::int64_t skip = std::max<std::int64_t>(0, k - run.first) / kQueries * kQueries;
    const std::int64_t end =
        h_.window > 0 ? std::min(run.count, k + keys - 1 + h_.window - run.first) : run.count;
    for (std::int64_t q = skip; q < end; q += kQueries)
      tile({run.row + q, run.first + q, std::min(kQueries, run.count - q)}, k, keys);
  }

  void tile(const HeadLayout::Run& run, std::int64_t k, std::int64_t keys) {
    const auto [q, first, queries] = run;
    const View<C> weights{weights_.view.data, queries, keys, kKeys};
    const View<C> dscores{dscores_.view.data, queries, keys, kKeys};
    const Factor<C> query{rows_of(query_, q, queries)}, dout{rows_of(dout_, q, queries)};
    const Factor<C> key{rows_of(key_, k, keys)}, value{rows_of(value_, k, keys)};
    as_matrix(weights).setZero();
    as_matrix(dscores).setZero();
    multiply_add(query, {key.stored, true}, weights);
    multiply_add(dout, {value.stored, true}, dscores);
    for (std::int64_t i = 0; i < queries; ++i)
      row({q + i, first + i}, {k, keys}, weights.row(i), dscores.row(i));
    const View<const C> p{weights.data, queries, keys, kKeys},
        ds{dscores.data, queries, keys, kKeys};
    multiply_add({p, true}, dout, rows_of(dv_.view, k, keys));
    multiply_add({ds}, key, rows_of(dq_.view, q, queries));
    multiply_add({ds, true}, query, rows_of(dk_.view, k, keys));
  }

  // From products of one query to its (dropped) weights and to the gradients of its scores.
  struct Query {
    std::int64_t row, place;
  };
  struct Keys {
    std::int64_t first, count;
  };
  void row(const Query& of, const Keys& tile, C* weight, C* dscore) {
    const std::int64_t query = of.place;
    const auto [first, keys] = tile;
    const std::int64_t low = std::clamp<std::int64_t>(h_.first_key(query) - first, 0, keys);
    const std::int64_t high = std::clamp<std::int64_t>(h_.last_key(query) - first, low, keys);
    for (C* x : {weight, dscore}) {
      std::fill(x, x + low, C{0});
      std::fill(x + high, x + keys, C{0});
    }
    const C lse = o_.lse.at(batch_ * h_.heads + head_, of.row), delta = delta_[of.row];
    for (std::int64_t j = low; j < high; ++j) weight[j] = weight[j] * scale_ - lse;
    exp_each(weight + low, high - low);
    if (!draws_.any()) {
      for (std::int64_t j = low; j < high; ++j) dscore[j] = weight[j] * (dscore[j] - delta);
      return;
    }
    std::array<std::uint8_t, kKeys> keep;
    draws_.keep(context_.first_sample + batch_,
                (context_.tensor_rank * h_.heads + head_) * h_.sequence + query, first,
                {keep.data(), static_cast<std::size_t>(keys)});
    const C kept = static_cast<C>(draws_.scale());
    for (std::int64_t j = low; j < high; ++j) {
      const C factor = keep[j] != 0 ? kept : C{0};
      dscore[j] = weight[j] * (factor * dscore[j] - delta);
      weight[j] *= factor;
    }
  }

  // Stores factor * sums where to(row) says and clears the sums for the next key head.
  template <class To>
  void write(View<C> sums, C factor, To to) {
    for (std::int64_t i = 0; i < sums.rows; ++i) {
      Span<C> row(sums.row(i), h_.dim);
      row *= factor;
      store(row.data(), h_.dim, to(i));
      row.setZero();
    }
  }

  const HeadLayout& h_;
  const KeysInOrder<T>& keys_;
  const Operands<T>& o_;
  const KernelContext& context_;
  const DropoutDraws draws_;
  const C scale_;
  std::int64_t batch_ = 0, head_ = 0;
  View<const C> query_, key_, value_, dout_;
  std::vector<C> query_buffer_, key_buffer_, value_buffer_, dout_buffer_;
  Scratch<C> dq_, dk_, dv_, weights_, dscores_;
  std::vector<C> delta_;  // dot product of each query's output and its gradient
};

}  // namespace

void attention_backward(const Launch& launch) {
  with_storage(launch, launch.spec.dtype, [&](auto type) {
    using T = decltype(type);
    const HeadLayout h = fused_layout(launch);
    const std::int64_t tokens = h.batch * h.own();
    const std::size_t gathered = h.context > 1 ? 1 : 0;  // operands of what was gathered
    Operands<T> operands{
        operand<const T>(launch, 0, tokens, h.qkv_columns()),
        operand<const T>(launch, 1 + gathered, tokens, h.query_columns()),
        operand<const Compute<T>>(launch, 2 + gathered, h.batch * h.heads, h.own()),
        operand<const T>(launch, 3 + gathered, tokens, h.query_columns()),
        operand<T>(launch, 4 + gathered, tokens, h.qkv_columns()),
        {}};
    if (h.context > 1)
      operands.dkv = operand<T>(launch, 6, h.batch * h.sequence, 2 * h.kv_heads * h.dim);
    const KeysInOrder<T> keys(h, operands.qkv, gathered_keys<T>(launch, h, 1));
    for_ranges(launch, h.batch * h.kv_heads, 1, [&](std::int64_t first, std::int64_t last) {
      KeyHead<T> head(h, operands, keys, launch);
      for (std::int64_t i = first; i < last; ++i) head.run(i / h.kv_heads, i % h.kv_heads);
    });
  });
}

}  // namespace trainyard::kernels
