#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "tests/core/config/toy.h"

namespace trainyard {
namespace {

namespace fs = std::filesystem;

const std::string kPresets = TRAINYARD_SCENARIOS;

Model preset(const std::string& name) {
  return load_job({kToyRoot + "/gpus/toy-gpu.toml", kPresets + "/models/" + name + ".toml"},
                  {"batch.sequence_length=1024", "cluster.gpu.memory=900TiB"}, kToyRoot)
      .model;
}

struct Published {
  const char* name;
  std::int64_t sequence;
  double parameters, tolerance;
};

class ModelPresets : public testing::TestWithParam<Published> {};

TEST_P(ModelPresets, HaveThePublishedNumberOfParameters) {
  const Published& p = GetParam();
  const double count = static_cast<double>(parameter_count(preset(p.name), p.sequence));
  EXPECT_NEAR(count, p.parameters, p.tolerance * p.parameters);
}

// Exact: Hugging Face cards and llm.c (GPT-2), Hugging Face safetensors indices (Llama; BLOOM
// without its embedding norm of 2 x 14,336). Within 1 %: names and tables of arXiv 2205.05198 and
// 2402.15627, which round.
INSTANTIATE_TEST_SUITE_P(
    All, ModelPresets,
    testing::Values(
        Published{"gpt2-124m", 1024, 124'439'808, 0}, Published{"gpt2-355m", 1024, 354'823'168, 0},
        Published{"gpt2-774m", 1024, 774'030'080, 0},
        Published{"gpt2-1558m", 1024, 1'557'611'200, 0},
        Published{"llama-7b", 2048, 6'738'415'616, 0},
        Published{"llama-13b", 2048, 13'015'864'320, 0},
        Published{"llama-30b", 2048, 32'528'943'616, 0},
        Published{"llama-65b", 2048, 65'285'660'672, 0},
        Published{"llama2-70b", 4096, 68'976'648'192, 0},
        Published{"llama3-8b", 8192, 8'030'261'248, 0},
        Published{"llama3-70b", 8192, 70'553'706'496, 0},
        Published{"llama3-405b", 8192, 405'853'388'800, 0},
        Published{"bloom-176b", 2048, 176'247'271'424.0 - 28'672, 0},
        Published{"gpt-22b", 2048, 22e9, 0.01}, Published{"gpt3-175b", 2048, 174.6e9, 0.01},
        Published{"mt-nlg-530b", 2048, 529.6e9, 0.01}, Published{"gpt-1t", 2048, 1008e9, 0.01},
        Published{"megascale-175b", 2048, 175e9, 0.01},
        Published{"megascale-530b", 2048, 530e9, 0.01}, Published{"tiny-gpt", 256, 858'880, 0}),
    [](const auto& info) {
      std::string name = info.param.name;
      std::replace(name.begin(), name.end(), '-', '_');
      return name;
    });

TEST(ModelPresetFiles, AreAllCompared) {
  int files = 0;
  for (const auto& entry : fs::directory_iterator(kPresets + "/models"))
    files += entry.path().extension() == ".toml";
  EXPECT_EQ(files, 20);
}

}  // namespace
}  // namespace trainyard
