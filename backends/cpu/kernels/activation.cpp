#include "backends/cpu/kernels/bodies.h"
#include "backends/cpu/kernels/rows.h"
#include "core/model/model.h"

namespace trainyard::kernels {
namespace {

// GELU as GPT-2 computes it: x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))) (Hendrycks and Gimpel,
// arXiv 1606.08415, section 2).
constexpr double kSlope = 0.7978845608028654;  // sqrt(2 / pi)
constexpr double kCubic = 0.044715;

// t = the hyperbolic tangent in GELU of x.
template <class C>
void gelu_tanh(const C* x, std::int64_t n, C* t) {
  for (std::int64_t j = 0; j < n; ++j) t[j] = C(kSlope) * (x[j] + C(kCubic) * x[j] * x[j] * x[j]);
  tanh_each(t, n);
}

// s = 1 / (1 + exp(-x)).
template <class C>
void sigmoid(const C* x, std::int64_t n, C* s) {
  for (std::int64_t j = 0; j < n; ++j) s[j] = -x[j];
  exp_each(s, n);
  for (std::int64_t j = 0; j < n; ++j) s[j] = 1 / (1 + s[j]);
}

struct Shape {
  std::int64_t rows, columns, inputs;
  bool gated;
};

Shape shape_of(const Launch& launch) {
  const bool gated = launch.spec.flag == static_cast<std::uint8_t>(Activation::swiglu);
  const std::int64_t columns = launch.spec.shape[1];
  return {launch.spec.shape[0], columns, gated ? 2 * columns : columns, gated};
}

// Rows of x in arithmetic type, with the bias added where there is one.
template <class T>
class Biased {
  using C = Compute<T>;

 public:
  Biased(const Launch& launch, std::size_t bias, std::int64_t n)
      : bias_(static_cast<std::size_t>(n)) {
    if (has_operand(launch, bias)) load(operand<const T>(launch, bias, 1, n).data, n, bias_.data());
  }
  void operator()(const T* row, std::vector<C>& to) const {
    load(row, static_cast<std::int64_t>(to.size()), to.data());
    for (std::size_t j = 0; j < to.size(); ++j) to[j] += bias_[j];
  }

 private:
  std::vector<C> bias_;
};

// dx of a row of GELU.
template <class C>
void gelu_gradient(const C* x, const C* dy, const C* t, std::int64_t n, C* dx) {
  for (std::int64_t j = 0; j < n; ++j) {
    const C slope = C(kSlope) * (1 + C(3 * kCubic) * x[j] * x[j]);
    dx[j] = dy[j] * C(0.5) * (1 + t[j] + x[j] * (1 - t[j] * t[j]) * slope);
  }
}

// dx of a row of SwiGLU: of its gates, then of its values.
template <class C>
void swiglu_gradient(const C* x, const C* dy, const C* s, std::int64_t n, C* dx) {
  for (std::int64_t j = 0; j < n; ++j) {
    dx[j] = dy[j] * x[n + j] * s[j] * (1 + x[j] * (1 - s[j]));
    dx[n + j] = dy[j] * x[j] * s[j];
  }
}

}  // namespace

void activation_forward(const Launch& launch) {
  with_storage(launch, launch.spec.dtype, [&](auto type) {
    using T = decltype(type);
    using C = Compute<T>;
    const Shape s = shape_of(launch);
    const auto x = operand<const T>(launch, 0, s.rows, s.inputs);
    const auto y = operand<T>(launch, 1, s.rows, s.columns);
    const Biased<T> biased(launch, 2, s.inputs);
    for_ranges(launch, s.rows, row_grain(s.inputs), [&](std::int64_t first, std::int64_t last) {
      std::vector<C> in(static_cast<std::size_t>(s.inputs)), t(in.size());
      OutRow<T> out(s.columns);
      for (std::int64_t r = first; r < last; ++r) {
        biased(x.row(r), in);
        C* to = out.begin(y.row(r));
        if (s.gated) {
          sigmoid(in.data(), s.columns, t.data());
          for (std::int64_t j = 0; j < s.columns; ++j) to[j] = in[j] * t[j] * in[s.columns + j];
        } else {
          gelu_tanh(in.data(), s.columns, t.data());
          for (std::int64_t j = 0; j < s.columns; ++j) to[j] = C(0.5) * in[j] * (1 + t[j]);
        }
        out.end(y.row(r));
      }
    });
  });
}

void activation_backward(const Launch& launch) {
  with_storage(launch, launch.spec.dtype, [&](auto type) {
    using T = decltype(type);
    using C = Compute<T>;
    const Shape s = shape_of(launch);
    const auto x = operand<const T>(launch, 0, s.rows, s.inputs);
    const auto dy = operand<const T>(launch, 1, s.rows, s.columns);
    const auto dx = operand<T>(launch, 2, s.rows, s.inputs);
    const Biased<T> biased(launch, 3, s.inputs);
    for_ranges(launch, s.rows, row_grain(s.inputs), [&](std::int64_t first, std::int64_t last) {
      std::vector<C> in(static_cast<std::size_t>(s.inputs)), t(in.size());
      InRow<T> in_grad(s.columns);
      OutRow<T> out(s.inputs);
      for (std::int64_t r = first; r < last; ++r) {
        biased(x.row(r), in);
        const C* grad = in_grad(dy.row(r));
        C* to = out.begin(dx.row(r));
        if (s.gated) {
          sigmoid(in.data(), s.columns, t.data());
          swiglu_gradient(in.data(), grad, t.data(), s.columns, to);
        } else {
          gelu_tanh(in.data(), s.columns, t.data());
          gelu_gradient(in.data(), grad, t.data(), s.columns, to);
        }
        out.end(dx.row(r));
      }
    });
    if (has_operand(launch, 4))
      add_column_sums<T>(launch, {dx.data, dx.rows, dx.columns, dx.stride},
                         operand<C>(launch, 4, 1, s.inputs).data);
  });
}

}  // namespace trainyard::kernels
