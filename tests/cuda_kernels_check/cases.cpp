#include "tests/cuda_kernels_check/cases.h"

#include <array>
#include <utility>

namespace trainyard::kernels_check {
namespace {

using K = KernelKind;
constexpr DType kWide = DType::fp32;

class Cases {
 public:
  Cases(const Sizes& sizes, DType dtype) : s_(sizes), t_(dtype) {
    context_.seed = 1;
    context_.step = 2;
    context_.tokens = s_.tokens();
    context_.sequence = s_.sequence;
    context_.vocab = s_.vocab;
    context_.learning_rate = 1e-3;
    context_.weight_decay = 0.1;
  }

  std::vector<Case> all() {
    products();
    attention();
    rows();
    ends();
    optimizers();
    return std::move(cases_);
  }

 private:
  using Shape = std::array<std::int64_t, 6>;
  CaseOperand like(std::int64_t rows, std::int64_t columns, int passes = 1,
                   Fill fill = Fill::normal) const {
    return {rows, columns, t_, passes, fill};
  }
  static CaseOperand wide(std::int64_t rows, std::int64_t columns, int passes = 1,
                          Fill fill = Fill::normal, double value = 0) {
    return {rows, columns, kWide, passes, fill, value};
  }
  // Adds a case; the reference may be used to say more of it until the next.
  Case& add(const std::string& name, K kind, const Shape& shape,
            std::vector<CaseOperand> operands) {
    Case c;
    c.name = name;
    c.spec.kind = kind;
    c.spec.dtype = t_;
    c.spec.shape = shape;
    c.operands = std::move(operands);
    c.context = context_;
    cases_.push_back(std::move(c));
    return cases_.back();
  }

  void products();
  void attention();
  void rows();
  void ends();
  void optimizers();

  Sizes s_;
  DType t_;
  KernelContext context_;
  std::vector<Case> cases_;
};

void Cases::products() {
  const std::int64_t m = s_.tokens(), k = s_.hidden(), n = 4 * k;
  const auto product = [&](Case& c) {
    c.flops = 2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
    c.absolute = 2e-3;
  };
  Case& forward = add("gemm_forward", K::gemm_forward, {m, n, k},
                      {like(m, k), like(k, n), like(1, n), like(m, n)});
  forward.spec.flag = kGemmBias;
  product(forward);
  Case& input =
      add("gemm_input_grad", K::gemm_input_grad, {m, k, n}, {like(m, n), like(k, n), like(m, k)});
  product(input);
  Case& weight = add("gemm_weight_grad", K::gemm_weight_grad, {k, n, m},
                     {like(m, k), like(m, n), wide(k, n, 2), wide(1, n, 2)});
  weight.spec.flag = kGemmBias;
  product(weight);
}

void Cases::attention() {
  const std::int64_t columns = (s_.heads + 2 * s_.kv_heads) * s_.dim, rows = s_.batch * s_.heads;
  const CaseOperand qkv = like(s_.tokens(), columns), out = like(s_.tokens(), s_.hidden());
  const auto both = [&](std::int64_t window, bool by_cudnn) {
    const std::string what = std::string(window > 0 ? "_window" : "") + (by_cudnn ? "_cudnn" : "");
    const double keys =
        window > 0 ? static_cast<double>(window) : static_cast<double>(s_.sequence) / 2;
    const double flops = 4.0 * static_cast<double>(s_.tokens() * s_.hidden()) * keys;
    const Shape shape{s_.batch, s_.heads, s_.kv_heads, s_.sequence, s_.dim, window};
    Case& forward = add("attention_forward" + what, K::attention_forward, shape,
                        {qkv, out, wide(rows, s_.sequence)});
    forward.by_cudnn = by_cudnn;
    forward.flops = flops;
    forward.absolute = 0.02;
    // Scores of normal numbers have logarithms of sums near that of the number of keys.
    Case& backward = add("attention_backward" + what, K::attention_backward, shape,
                         {qkv, out, wide(rows, s_.sequence, 1, Fill::constant, 5), out, qkv});
    backward.by_cudnn = by_cudnn;
    backward.flops = 2.5 * flops;
    backward.absolute = 0.08;
  };
  for (const std::int64_t window : {std::int64_t{0}, s_.sequence / 4})
    for (const bool by_cudnn : {false, true})
      if (!by_cudnn || t_ != kWide) both(window, by_cudnn);  // cuDNN's is in 16 bits
}

void Cases::rows() {
  const std::int64_t r = s_.tokens(), n = s_.hidden(), f = 4 * n;
  const CaseOperand x = like(r, n), stats = wide(r, 2, 1, Fill::constant, 1);
  add("add", K::add, {r, n}, {like(r, n, 2), x});
  add("zero", K::zero, {r * n}, {x});
  add("copy_columns", K::copy_columns, {r, n, n}, {like(r, 3 * n), x});
  for (const bool rms : {false, true}) {
    const std::int64_t scales = rms ? 1 : 2;
    add(rms ? "norm_forward_rms" : "norm_forward", K::norm_forward, {r, n},
        {x, like(scales, n), x, wide(r, 2)})
        .spec.flag = rms ? 1 : 0;
    Case& back = add(rms ? "norm_backward_rms" : "norm_backward", K::norm_backward, {r, n},
                     {x, x, stats, like(scales, n), x, wide(scales, n, 2), x});
    back.spec.flag = rms ? 1 : 0;
    back.absolute = 5e-3;
  }
  add("activation_forward", K::activation_forward, {r, f}, {like(r, f), like(r, f)});
  add("activation_backward", K::activation_backward, {r, f}, {like(r, f), like(r, f), like(r, f)});
  add("activation_forward_swiglu", K::activation_forward, {r, f}, {like(r, 2 * f), like(r, f)})
      .spec.flag = 1;
  add("activation_backward_swiglu", K::activation_backward, {r, f},
      {like(r, 2 * f), like(r, f), like(r, 2 * f)})
      .spec.flag = 1;
  Case& residual = add("residual_forward_dropout", K::residual_forward, {r, n},
                       {x, x, x, like(1, n), {r, n, DType::uint8, 1, Fill::zero}});
  residual.spec.flag = 1;
  residual.spec.parameter = 0.1;
  Case& back = add("residual_backward_dropout", K::residual_backward, {r, n},
                   {x, {r, n, DType::uint8, 1, Fill::mask}, x, wide(1, n, 2)});
  back.spec.flag = 1;
  back.spec.parameter = 0.1;
  back.absolute = 5e-3;
  add("rope_forward", K::rope_forward, {r, s_.heads, s_.kv_heads, s_.dim, s_.sequence},
      {like(r, (s_.heads + 2 * s_.kv_heads) * s_.dim, 2)})
      .spec.parameter = 10000;
  const std::int64_t squares = s_.batch * s_.heads * s_.sequence;
  const CaseOperand square = like(squares, s_.sequence);
  add("softmax_forward", K::softmax_forward, {squares, s_.sequence, 0}, {square, square})
      .spec.parameter = 0.125;
  add("softmax_backward", K::softmax_backward, {squares, s_.sequence, 0},
      {square, like(squares, s_.sequence, 2)})
      .spec.parameter = 0.125;
}

void Cases::ends() {
  const std::int64_t r = s_.tokens(), n = s_.hidden(), v = s_.vocab;
  const CaseOperand tokens{s_.batch, s_.sequence + 1, DType::int32, 1, Fill::tokens};
  const CaseOperand most = wide(r, 1, 1, Fill::constant, 4);
  const CaseOperand sums = wide(r, 2, 1, Fill::constant, static_cast<double>(v) / 30);
  add("embedding_forward", K::embedding_forward, {r, n}, {tokens, like(v, n), like(r, n)});
  add("embedding_backward", K::embedding_backward, {r, n}, {tokens, like(r, n), wide(v, n, 2)});
  add("loss_max", K::loss_max, {r, v}, {like(r, v), wide(r, 1)});
  add("loss_sum", K::loss_sum, {r, v}, {like(r, v), tokens, most, wide(r, 2)});
  add("loss_forward", K::loss_forward, {r, 2}, {tokens, most, sums, wide(1, 2, 2)}).absolute = 0.01;
  add("loss_backward", K::loss_backward, {r, v}, {like(r, v), tokens, most, sums, like(r, v)});
}

void Cases::optimizers() {
  const std::int64_t n = s_.elements;
  const CaseOperand flat = wide(1, n), state = wide(1, n, 2);
  const CaseOperand squares = wide(1, n, 2, Fill::positive);
  std::vector<CaseOperand> adam{flat, state, squares, state};
  if (t_ != kWide) adam.push_back(like(1, n));
  add("adamw", K::adamw, {n}, adam);
  add("lamb_update", K::lamb_update, {n}, {flat, state, squares, flat, flat, wide(1, 2)});
  add("grad_norm", K::grad_norm, {n}, {flat, wide(1, 2, 2)}).absolute = 0.1;
  add("grad_clip", K::grad_clip, {n}, {state, wide(1, 2, 1, Fill::constant, 400)}).spec.parameter =
      1;
}

}  // namespace

double Case::bytes() const {
  double sum = 0;
  for (const CaseOperand& o : operands)
    sum += static_cast<double>(o.rows * o.columns * size_of(o.dtype) * o.passes);
  return sum;
}

std::vector<Case> cases_of(const Sizes& sizes, DType dtype) { return Cases(sizes, dtype).all(); }

}  // namespace trainyard::kernels_check
