#include <fstream>
#include <nlohmann/json.hpp>

#include "core/model/model.h"
#include "tests/backends/cpu/kernels/harness.h"

// Results of PyTorch in double precision: tests/oracle/make_kernel_goldens.py. Both sides round at
// 2^-53 a step and the files hold 14 digits, so 1e-12 is ample.
namespace trainyard::testing {
namespace {

using K = KernelKind;
using Json = nlohmann::json;
constexpr double kTolerance = 1e-12;

Json golden(const std::string& file, const std::string& name) {
  std::ifstream in(TRAINYARD_TEST_DATA "/oracle/kernels/" + file + ".json");
  return Json::parse(in).at("cases").at(name);
}

Buffer buffer(const Json& json, const char* name) {
  const Json& b = json.at(name);
  return {b.at("rows"), b.at("columns"), b.at("values").get<std::vector<double>>()};
}

std::array<std::int64_t, 6> shape(const Json& json) {
  const auto values = json.at("shape").get<std::vector<std::int64_t>>();
  std::array<std::int64_t, 6> s{};
  std::copy(values.begin(), values.end(), s.begin());
  return s;
}

TEST(PyTorch, Attention) {
  for (const char* name : {"full", "grouped_window", "one_key_head"}) {
    const Json g = golden("attention", name);
    Buffer qkv = buffer(g, "qkv"), dout = buffer(g, "dout"), expected = buffer(g, "out");
    const Buffer expected_lse = buffer(g, "lse");
    Buffer out = zeros(expected.rows, expected.columns), dqkv = zeros(qkv.rows, qkv.columns);
    Buffer lse = zeros(expected_lse.rows, expected_lse.columns);
    run(spec_of(K::attention_forward, shape(g)), {&qkv, &out, &lse});
    run(spec_of(K::attention_backward, shape(g)), {&qkv, &out, &lse, &dout, &dqkv});
    EXPECT_LT(difference(out, expected), kTolerance) << name;
    EXPECT_LT(difference(lse, expected_lse), kTolerance) << name;
    EXPECT_LT(difference(dqkv, buffer(g, "dqkv")), kTolerance) << name;
  }
}

TEST(PyTorch, Norms) {
  for (const auto& [name, kind] :
       {std::pair{"layernorm", Norm::layernorm}, std::pair{"rmsnorm", Norm::rmsnorm}}) {
    const Json g = golden("layers", name);
    const auto flag = static_cast<std::uint8_t>(kind);
    Buffer x = buffer(g, "x"), scales = buffer(g, "scales"), dy = buffer(g, "dy");
    Buffer y = zeros(x.rows, x.columns), stats = zeros(x.rows, 2), dx = y;
    Buffer dscales = zeros(scales.rows, scales.columns);
    run(spec_of(K::norm_forward, shape(g), flag), {&x, &scales, &y, &stats});
    run(spec_of(K::norm_backward, shape(g), flag), {&dy, &x, &stats, &scales, &dx, &dscales});
    EXPECT_LT(difference(y, buffer(g, "y")), kTolerance) << name;
    EXPECT_LT(difference(dx, buffer(g, "dx")), kTolerance) << name;
    EXPECT_LT(difference(dscales, buffer(g, "dscales")), kTolerance) << name;
  }
}

TEST(PyTorch, Activations) {
  for (const auto& [name, kind] :
       {std::pair{"gelu", Activation::gelu}, std::pair{"swiglu", Activation::swiglu}}) {
    const Json g = golden("layers", name);
    const auto flag = static_cast<std::uint8_t>(kind);
    Buffer x = buffer(g, "x"), dy = buffer(g, "dy");
    Buffer y = zeros(dy.rows, dy.columns), dx = zeros(x.rows, x.columns);
    run(spec_of(K::activation_forward, shape(g), flag), {&x, &y});
    run(spec_of(K::activation_backward, shape(g), flag), {&x, &dy, &dx});
    EXPECT_LT(difference(y, buffer(g, "y")), kTolerance) << name;
    EXPECT_LT(difference(dx, buffer(g, "dx")), kTolerance) << name;
  }
}

TEST(PyTorch, RotaryPositions) {
  const Json g = golden("layers", "rope");
  Buffer qkv = buffer(g, "qkv");
  const Buffer before = qkv;
  run(spec_of(K::rope_forward, shape(g), 0, g.at("base")), {&qkv});
  EXPECT_LT(difference(qkv, buffer(g, "out")), kTolerance);
  run(spec_of(K::rope_backward, shape(g), 0, g.at("base")), {&qkv});
  EXPECT_LT(difference(qkv, before), kTolerance);
}

TEST(PyTorch, Linear) {
  const Json g = golden("layers", "linear");
  const auto [m, n, k, a, b, c] = shape(g);
  Buffer x = buffer(g, "x"), w = buffer(g, "w"), bias = buffer(g, "bias"), dy = buffer(g, "dy");
  Buffer y = zeros(m, n), dx = zeros(m, k), dw = zeros(k, n), dbias = zeros(1, n);
  run(spec_of(K::gemm_forward, {m, n, k}, kGemmBias), {&x, &w, &bias, &y});
  run(spec_of(K::gemm_input_grad, {m, k, n}), {&dy, &w, &dx});
  run(spec_of(K::gemm_weight_grad, {k, n, m}, kGemmBias), {&x, &dy, &dw, &dbias});
  EXPECT_LT(difference(y, buffer(g, "y")), kTolerance);
  EXPECT_LT(difference(dx, buffer(g, "dx")), kTolerance);
  EXPECT_LT(difference(dw, buffer(g, "dw")), kTolerance);
  EXPECT_LT(difference(dbias, buffer(g, "dbias")), kTolerance);
}

TEST(PyTorch, CrossEntropy) {
  const Json g = golden("training", "cross_entropy");
  const auto [rows, vocab, a, b, c, d] = shape(g);
  Buffer logits = buffer(g, "logits"), tokens = zeros(1, rows + 1);
  const Buffer target = buffer(g, "target");
  for (std::int64_t r = 0; r < rows; ++r) tokens.at(0, r + 1) = target.at(0, r);
  tokens.dtype = DType::int32;
  Buffer maximum = zeros(rows, 1), sums = zeros(rows, 2), loss = zeros(1, 2);
  Buffer dlogits = zeros(rows, vocab);
  KernelContext context;
  context.tokens = context.sequence = rows;
  context.vocab = vocab;
  context.loss_weight = 1 / g.at("valid").get<double>();
  const auto spec = [&, rows = rows](K kind, std::int64_t columns) {
    return spec_of(kind, {rows, columns});
  };
  run(spec(K::loss_max, vocab), {&logits, &maximum}, context);
  run(spec(K::loss_sum, vocab), {&logits, &tokens, &maximum, &sums}, context);
  run(spec(K::loss_forward, 2), {&tokens, &maximum, &sums, &loss}, context);
  run(spec(K::loss_backward, vocab), {&logits, &tokens, &maximum, &sums, &dlogits}, context);
  EXPECT_NEAR(loss.at(0, 0), g.at("loss").get<double>(), kTolerance);
  EXPECT_EQ(loss.at(0, 1), g.at("valid").get<double>());
  EXPECT_LT(difference(dlogits, buffer(g, "dlogits")), kTolerance);
}

TEST(PyTorch, ThreeStepsOfAdamAndAdamW) {
  for (const auto& [name, kind] : {std::pair{"adam", K::adam}, std::pair{"adamw", K::adamw}}) {
    const Json g = golden("training", name);
    Buffer grads = buffer(g, "grads"), weight = buffer(g, "before");
    const std::int64_t n = grads.columns;
    Buffer m = zeros(1, n), v = zeros(1, n);
    KernelContext context;
    context.learning_rate = 0.01;
    context.beta2 = 0.95;
    context.weight_decay = 0.1;
    for (std::int64_t step = 0; step < grads.rows; ++step) {
      Buffer grad = zeros(1, n);
      for (std::int64_t j = 0; j < n; ++j) grad.at(0, j) = grads.at(step, j);
      context.update = step + 1;
      run(spec_of(kind, {n}), {&grad, &m, &v, &weight}, context);
    }
    EXPECT_LT(difference(weight, buffer(g, "after")), kTolerance) << name;
    EXPECT_LT(difference(m, buffer(g, "m")), kTolerance) << name;
    EXPECT_LT(difference(v, buffer(g, "v")), kTolerance) << name;
  }
}

}  // namespace
}  // namespace trainyard::testing
