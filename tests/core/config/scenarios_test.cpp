#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "tests/core/config/toy.h"

namespace trainyard {
namespace {

namespace fs = std::filesystem;

const std::string kScenarios = TRAINYARD_SCENARIOS;

std::vector<std::string> toml_files(const std::string& folder, bool recursive = false) {
  std::vector<std::string> files;
  for (const auto& entry : fs::recursive_directory_iterator(kScenarios + folder)) {
    const bool here = recursive || entry.path().parent_path() == fs::path(kScenarios + folder);
    if (here && entry.path().extension() == ".toml") files.push_back(entry.path().string());
  }
  std::sort(files.begin(), files.end());
  return files;
}

TEST(HardwarePresets, AreCompleteJobsWithASmallModel) {
  std::vector<std::string> small{"model=tiny-gpt", "batch.sequence_length=64"};
  int loaded = 0;
  for (const auto& file : toml_files("/clusters")) {
    auto sets = small;
    sets.push_back("cluster=" + fs::path(file).stem().string());
    // V100 has no bf16 and no fused attention.
    if (file.find("v100") != std::string::npos) {
      sets.push_back("training.precision=fp16");
      sets.push_back("model.attention=unfused");
    }
    EXPECT_NO_THROW(load_job({}, sets, kScenarios)) << file;
    ++loaded;
  }
  for (const auto& file : toml_files("/gpus")) {
    auto sets = small;
    sets.push_back("cluster.gpu=" + fs::path(file).stem().string());
    sets.push_back("training.precision=fp16");
    sets.push_back("model.attention=unfused");
    EXPECT_NO_THROW(load_job({}, sets, kScenarios)) << file;
    ++loaded;
  }
  EXPECT_GT(loaded, 15);
}

void expect_to_load(const std::vector<std::string>& files, bool published) {
  EXPECT_FALSE(files.empty());
  for (const std::string& file : files) {
    SCOPED_TRACE(file);
    EXPECT_NO_THROW({
      const Job job = load_job({file}, {}, kScenarios);
      EXPECT_TRUE(job.warnings.empty());
      const bool trains_here = !job.data.files.empty();  // on a machine nobody has stated an MFU of
      EXPECT_TRUE(!published || trains_here || job.expect.contains("mfu"));
    });
  }
}

// A study may ask what nobody has published; all others state the figure that they reproduce.
TEST(Scenarios, LoadWithoutComplaint) {
  expect_to_load(toml_files(""), true);
  expect_to_load(toml_files("/studies/ablation-256"), true);  // MegaScale's Table 3
  expect_to_load(toml_files("/studies", true), false);
}

TEST(Scenarios, AreTheTwoRowsOfMegaScaleOn12288Gpus) {
  const Job megascale = load_job({kScenarios + "/megascale-175b-12288.toml"}, {}, kScenarios);
  const Job megatron = load_job({kScenarios + "/megatron-175b-12288.toml"}, {}, kScenarios);
  for (const Job& job : {megascale, megatron}) {
    EXPECT_EQ(job.gpus(), 12288);
    EXPECT_EQ(job.cluster.nodes, 1536);
    EXPECT_EQ(job.micro_batches(), 32);  // 6144 / 192
  }
  const Overlap off = megatron.schedule.overlap;
  EXPECT_FALSE(off.tensor || off.pipeline || off.data || off.prefetch || off.data_loading);
  EXPECT_EQ(megatron.model.window, 0);
  EXPECT_EQ(megatron.model.block, Block::serial);
}

std::string ladder_text(const Job& job) {
  const Overlap& o = job.schedule.overlap;
  const Software& s = job.software;
  return fmt::format("{} {} {}{}{}{}{} zero{} {} {}{}{} gc{} batch{} opt{}",
                     static_cast<int>(job.model.block), job.model.window, o.tensor, o.pipeline,
                     o.data, o.prefetch, o.data_loading, job.parallel.zero, s.attention,
                     s.fused_norm, s.fused_residual, s.fused_activation, s.garbage_collection_ms,
                     job.batch.global_sequences, static_cast<int>(job.training.optimizer));
}

TEST(AblationLadder, AddsOneTechniqueAStepAndEndsAtMegaScale) {
  const auto files = toml_files("/studies/ablation-256");
  ASSERT_EQ(files.size(), 9U);
  std::string before;
  double mfu = 0;
  Job job;
  for (const std::string& file : files) {
    job = load_job({file}, {}, kScenarios);
    EXPECT_EQ(job.gpus(), 256) << file;
    EXPECT_NE(ladder_text(job), before) << file;
    EXPECT_GT(job.expect.at("mfu").low, mfu) << file;
    before = ladder_text(job), mfu = job.expect.at("mfu").low;
  }
  Job megascale = load_job({kScenarios + "/megascale-175b-12288.toml"}, {}, kScenarios);
  megascale.batch.global_sequences = 768;  // Table 3, last row
  EXPECT_EQ(ladder_text(job), ladder_text(megascale));
}

}  // namespace
}  // namespace trainyard
