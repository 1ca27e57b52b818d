#include "core/model/model.h"

#include <gtest/gtest.h>

namespace trainyard {
namespace {

Model gpt3() {
  Model m;
  m.layers = 96, m.hidden = 12288, m.heads = m.kv_heads = 96, m.head_dim = 128, m.ffn = 49152;
  m.vocab = 51200;
  return m;
}

// SC'21 (arXiv 2104.04473) eq. 2: P = 12 l h^2 (1 + 13/(12h) + (V + s)/(12 l h)), which leaves
// out the final norm's 2h.
TEST(ModelParameters, FollowTheClosedFormOfNarayananEtAl) {
  const Model m = gpt3();
  const double l = 96, h = 12288, v = 51200, s = 2048;
  const double expected = 12 * l * h * h * (1 + 13 / (12 * h) + (v + s) / (12 * l * h));
  EXPECT_NEAR(static_cast<double>(parameter_count(m, 2048)), expected + 2 * h, 1e5);
}

// GPT-2 124M has 124,439,808 parameters and Llama-2 7B 6,738,415,616 (Hugging Face cards).
TEST(ModelParameters, MatchPublishedCounts) {
  Model gpt2;
  gpt2.layers = 12, gpt2.hidden = 768, gpt2.heads = gpt2.kv_heads = 12, gpt2.head_dim = 64;
  gpt2.ffn = 3072, gpt2.vocab = 50257;
  EXPECT_EQ(parameter_count(gpt2, 1024), 124'439'808);

  Model llama;
  llama.layers = 32, llama.hidden = 4096, llama.heads = llama.kv_heads = 32, llama.head_dim = 128;
  llama.ffn = 11008, llama.vocab = 32000, llama.norm = Norm::rmsnorm, llama.tied = false;
  llama.activation = Activation::swiglu, llama.position = Position::rope, llama.bias = false;
  EXPECT_EQ(parameter_count(llama, 4096), 6'738'415'616);
}

// Korthikanti et al. (arXiv 2205.05198) appendix A: 72 B s l h^2 (1 + s/(6h) + V/(12 h l)).
TEST(ModelFlops, FollowKorthikantiPerToken) {
  const double l = 96, h = 12288, v = 51200, s = 2048;
  const double expected = 72 * l * h * h * (1 + s / (6 * h) + v / (12 * h * l));
  EXPECT_NEAR(model_flops_per_token(gpt3(), 2048, FlopConvention::full) / expected, 1, 1e-12);
}

TEST(ModelFlops, CausalCountsOnlyUnmaskedKeys) {
  Model m = gpt3();
  // 4 queries see 1, 2, 3, 4 keys; with a window of 2 they see 1, 2, 2, 2.
  EXPECT_DOUBLE_EQ(mean_causal_keys(4, 0), 2.5);
  EXPECT_DOUBLE_EQ(mean_causal_keys(4, 2), 1.75);
  EXPECT_DOUBLE_EQ(mean_causal_keys(4, 9), 2.5);
  const double full = model_flops_per_token(m, 2048, FlopConvention::full);
  const double causal = model_flops_per_token(m, 2048, FlopConvention::causal);
  EXPECT_NEAR(full - causal, 12 * 96 * 12288 * (2048 - 1024.5), 1);
}

// A window of half the sequence leaves 3/4 of the causal area: 1 - (1 - 1/2)^2.
TEST(ModelFlops, AWindowCountsByTheAreaItLeaves) {
  Model m = gpt3();
  const double whole = model_flops_per_token(m, 2048, FlopConvention::full);
  m.window = 1024;
  const double attention = 12.0 * 96 * 12288 * 2048;
  EXPECT_NEAR((whole - model_flops_per_token(m, 2048, FlopConvention::full)) / attention, 0.25,
              1e-3);
}

// 151,936 rows need no padding for two ranks (Megatron-Bridge 5353 padded them twice).
TEST(VocabularyPadding, RoundsUpOnce) {
  EXPECT_EQ(padded_vocab(50257, 1, 128), 50304);
  EXPECT_EQ(padded_vocab(50257, 8, 128), 51200);
  EXPECT_EQ(padded_vocab(50257, 2, 1), 50258);
  EXPECT_EQ(padded_vocab(151936, 2, 1), 151936);
  EXPECT_EQ(padded_vocab(151669, 4, 1), 151672);
}

}  // namespace
}  // namespace trainyard
