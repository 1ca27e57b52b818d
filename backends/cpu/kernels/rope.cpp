#include <cmath>

#include "backends/cpu/kernels/bodies.h"
#include "backends/cpu/kernels/rows.h"

namespace trainyard::kernels {
namespace {

// Where token `own` of a rank's part of a sequence stands in the sequence.
std::int64_t place_of(const Launch& launch, std::int64_t own) {
  const KernelContext& c = launch.context;
  const std::int64_t sequence = launch.spec.shape[4] * c.context_size;
  return ContextTokens{sequence, c.context_size}.place(c.context_rank, own);
}

// Rotates (x[i], x[i + dim/2]) of every query and key head by place * base^(-2i/dim), the pairing
// that Llama checkpoints use (Su et al., arXiv 2104.09864, equation 34); direction -1 turns back.
void rotate(const Launch& launch, int direction) {
  with_storage(launch, launch.spec.dtype, [&](auto type) {
    using T = decltype(type);
    using C = Compute<T>;
    const auto& s = launch.spec.shape;
    const std::int64_t tokens = s[0], heads = s[1], kv_heads = s[2], dim = s[3], sequence = s[4];
    const std::int64_t rotated = heads + kv_heads, half = dim / 2;
    check(dim % 2 == 0, "rotary positions need an even head size, not {}", dim);
    const auto qkv = operand<T>(launch, 0, tokens, (heads + 2 * kv_heads) * dim);
    for_ranges(launch, sequence, row_grain(rotated * dim), [&](std::int64_t from, std::int64_t to) {
      std::vector<C> cosine(static_cast<std::size_t>(half)), sine(cosine.size());
      InRow<T> in(dim);
      OutRow<T> out(dim);
      for (std::int64_t place = from; place < to; ++place) {
        for (std::int64_t i = 0; i < half; ++i) {
          const double exponent = -2.0 * static_cast<double>(i) / static_cast<double>(dim);
          const double angle = static_cast<double>(place_of(launch, place)) *
                               std::pow(launch.spec.parameter, exponent);
          cosine[i] = static_cast<C>(std::cos(angle));
          sine[i] = static_cast<C>(direction * std::sin(angle));
        }
        for (std::int64_t row = place; row < tokens; row += sequence) {
          for (std::int64_t head = 0; head < rotated; ++head) {
            T* at = &qkv.at(row, head * dim);
            const C* x = in(at);
            C* y = out.begin(at);
            for (std::int64_t i = 0; i < half; ++i) {
              const C a = x[i], b = x[i + half];
              y[i] = a * cosine[i] - b * sine[i];
              y[i + half] = b * cosine[i] + a * sine[i];
            }
            out.end(at);
          }
        }
      }
    });
  });
}

}  // namespace

void rope_forward(const Launch& launch) { rotate(launch, 1); }
void rope_backward(const Launch& launch) { rotate(launch, -1); }

}  // namespace trainyard::kernels
