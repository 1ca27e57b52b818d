#include "core/model/initial_weights.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

namespace trainyard {
namespace {

Model small_model() {
  Model m;
  m.layers = 2, m.hidden = 64, m.heads = m.kv_heads = 4, m.head_dim = 16, m.ffn = 256;
  m.vocab = 101;
  return m;
}

LogicalTensor tensor_of(const Model& model, const std::string& name) {
  for (LogicalTensor& t : logical_tensors(model, 8))
    if (t.name == name) return t;
  ADD_FAILURE() << name;
  return {};
}

std::vector<float> start_of(const Model& model, const std::string& name, std::uint64_t seed = 1) {
  const LogicalTensor t = tensor_of(model, name);
  std::vector<float> values(t.elements());
  InitialWeights(model, 8, seed).fill(whole(t), values);
  return values;
}

double deviation(const std::vector<float>& values) {
  double squares = 0;
  for (const float v : values) squares += static_cast<double>(v) * v;
  return std::sqrt(squares / static_cast<double>(values.size()));
}

TEST(LogicalTensors, AddUpToTheParameterCount) {
  for (const Norm norm : {Norm::layernorm, Norm::rmsnorm})
    for (const Activation activation : {Activation::gelu, Activation::swiglu})
      for (const Block block : {Block::serial, Block::parallel})
        for (const bool flag : {false, true}) {
          Model m = small_model();
          m.norm = norm, m.activation = activation, m.block = block;
          m.tied = flag, m.bias = !flag, m.kv_heads = flag ? 2 : 4;
          m.position = flag ? Position::rope : Position::learned;
          std::int64_t elements = 0;
          for (const LogicalTensor& t : logical_tensors(m, 8)) elements += t.elements();
          EXPECT_EQ(elements, parameter_count(m, 8));
        }
}

// The estimate of a deviation from n values has a relative error of 1/sqrt(2n); five of those.
TEST(InitialWeights, HaveGpt2sDeviations) {
  const Model m = small_model();
  const std::pair<const char*, double> expected[] = {{"embedding", 0.02},
                                                     {"layer0.q", 0.02},
                                                     {"layer1.fc1", 0.02},
                                                     {"layer0.proj", 0.02 / 2},  // 2 layers
                                                     {"layer1.fc2", 0.02 / 2}};
  for (const auto& [name, sigma] : expected) {
    const auto values = start_of(m, name);
    const double n = static_cast<double>(values.size());
    EXPECT_NEAR(deviation(values) / sigma, 1, 5 / std::sqrt(2 * n)) << name;
    EXPECT_NEAR(std::accumulate(values.begin(), values.end(), 0.0) / n, 0, 5 * sigma / std::sqrt(n))
        << name;
  }
}

TEST(InitialWeights, NormsStartAsTheIdentityAndBiasesAtZero) {
  const auto norm = start_of(small_model(), "layer1.norm2");
  for (int i = 0; i < 64; ++i) {
    EXPECT_EQ(norm[i], 1);
    EXPECT_EQ(norm[64 + i], 0);
  }
  EXPECT_EQ(deviation(start_of(small_model(), "layer0.q_bias")), 0);
}

TEST(InitialWeights, TensorsAndSeedsDiffer) {
  const Model m = small_model();
  EXPECT_NE(start_of(m, "layer0.q"), start_of(m, "layer0.k"));
  EXPECT_NE(start_of(m, "layer0.q"), start_of(m, "layer1.q"));
  EXPECT_NE(start_of(m, "layer0.q", 1), start_of(m, "layer0.q", 2));
}

TEST(InitialWeights, APartHasTheValuesOfTheWhole) {
  const Model m = small_model();
  const std::vector<float> all = start_of(m, "layer0.q");
  Rectangle part = whole(tensor_of(m, "layer0.q"));
  part.first_row = 3, part.first_column = 17, part.rows = 5, part.columns = 30;
  part.offset = 2, part.row_stride = 33;
  std::vector<float> flat(2 + 5 * 33, -9);
  InitialWeights(m, 8, 1).fill(part, flat);
  for (int i = 0; i < 5; ++i)
    for (int j = 0; j < 33; ++j)
      EXPECT_EQ(flat[2 + i * 33 + j], j < 30 ? all[(3 + i) * 64 + 17 + j] : -9);
}

}  // namespace
}  // namespace trainyard
