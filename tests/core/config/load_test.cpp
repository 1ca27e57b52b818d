#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "tests/core/config/toy.h"
#include "tests/temporary_folder.h"

namespace trainyard {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// Writes scenario files into a folder that goes away with the test.
class Layers : public testing::Test {
 protected:
  void SetUp() override { fs::create_directories(folder_ / "sub"); }
  std::string write(const std::string& name, const std::string& text) const {
    std::ofstream(folder_ / name) << text;
    return (folder_ / name).string();
  }
  const TemporaryFolder temporary_;
  const fs::path folder_ = temporary_.path();
  const std::string good_ = kToyRoot + "/good.toml";
};

TEST(LoadJob, StoresEveryKindOfValueInItsUnit) {
  const Job job = toy_job();
  EXPECT_EQ(job.name, "good");
  EXPECT_EQ(job.model.hidden, 1024);
  EXPECT_TRUE(job.parallel.sequence);
  EXPECT_EQ(job.schedule.pipeline, Order::interleaved_1f1b);
  EXPECT_TRUE(job.schedule.overlap.tensor);
  EXPECT_TRUE(job.schedule.overlap.data);
  EXPECT_FALSE(job.schedule.overlap.pipeline);
  EXPECT_EQ(job.cluster.gpu.memory.value, 80LL << 30);
  EXPECT_DOUBLE_EQ(job.cluster.node.nic.value, 25e9);      // 200 Gbit/s
  EXPECT_DOUBLE_EQ(job.cluster.node.nvlink.value, 300e9);  // GB/s
  EXPECT_DOUBLE_EQ(job.cluster.gpu.peak_bf16.value, 300e12);
  EXPECT_DOUBLE_EQ(job.cluster.fabric.hop_latency_us, 1.5);  // written "1.5us"
  ASSERT_EQ(job.cluster.gpu.attention.size(), 2U);
  EXPECT_EQ(job.cluster.gpu.attention[1].name, "flash2");
  EXPECT_EQ(job.cluster.gpu.attention[1].window_tile, 64);
  EXPECT_THAT(job.warnings, IsEmpty());
}

TEST(LoadJob, DerivesWhatFollowsFromOtherKeys) {
  const Job job = toy_job();
  EXPECT_EQ(job.model.kv_heads, 16);
  EXPECT_EQ(job.model.head_dim, 64);  // 1024 / 16
  EXPECT_EQ(job.model.ffn, 4096);     // 4 x 1024
  EXPECT_EQ(job.cluster.nodes, 4);    // 2 x 4 x 4 ranks on nodes of 8
}

TEST_F(Layers, InferDataRanksFromNodes) {
  const auto file = write("job.toml",
                          "[parallel]\ntensor = 2\npipeline = 2\n"
                          "[batch]\nsequence_length = 128\nglobal_sequences = 60\n"
                          "[cluster]\npreset = \"toy\"\nnodes = 5\n");
  const Job job = load_job({file}, {"model=toy-model"}, kToyRoot);
  EXPECT_EQ(job.parallel.data, 10);  // 5 x 8 / (2 x 2)
  EXPECT_EQ(job.gpus(), 40);
}

TEST(LoadJob, TakesPartOfANodeWhenNodesAreLeftOut) {
  const Job job = toy_job({"parallel.data=1", "parallel.pipeline=2", "parallel.virtual_stages=2",
                           "batch.global_sequences=8"});
  EXPECT_EQ(job.gpus(), 4);
  EXPECT_EQ(job.cluster.nodes, 1);
}

TEST_F(Layers, LaterFilesWinKeyByKeyAndSetsWinOverAll) {
  const auto second = write("second.toml", "[model]\nheads = 8\nlayers = 24\n");
  const auto third = write("third.toml", "[model]\nlayers = 12\n");
  const Job job = load_job({good_, second, third}, {"model.vocab=999"}, kToyRoot);
  EXPECT_EQ(job.model.heads, 8);
  EXPECT_EQ(job.model.layers, 12);
  EXPECT_EQ(job.model.vocab, 999);
  EXPECT_EQ(job.model.hidden, 1024);
  EXPECT_EQ(job.name, "third");
}

TEST_F(Layers, BasesLieBelowTheFileThatNamesThemAndAreRelativeToIt) {
  write("one.toml", "[model]\nheads = 4\nvocab = 11\nhidden = 512\n");
  write("two.toml", "[model]\nheads = 8\nvocab = 22\n");
  const auto top =
      write("sub/top.toml", "base = [\"../one.toml\", \"../two.toml\"]\n[model]\nvocab = 33\n");
  const Job job = load_job({good_, top}, {}, kToyRoot);
  EXPECT_EQ(job.model.hidden, 512);  // one
  EXPECT_EQ(job.model.heads, 8);     // two over one
  EXPECT_EQ(job.model.vocab, 33);    // top over both
}

TEST_F(Layers, PresetsLieBelowEverythingInWhateverOrderTheyAreNamed) {
  const auto file = write("job.toml",
                          "[model]\nlayers = 24\npreset = \"toy-model\"\n"
                          "[batch]\nsequence_length = 64\n[cluster]\npreset = \"toy\"\n");
  const Job job = load_job({file}, {"cluster.gpu.memory=40GiB"}, kToyRoot);
  EXPECT_EQ(job.model.layers, 24);
  EXPECT_EQ(job.model.hidden, 1024);                    // of the preset
  EXPECT_EQ(job.cluster.gpu.name, "toy");               // of the GPU the cluster names
  EXPECT_EQ(job.cluster.gpu.memory.value, 40LL << 30);  // bare string of --set
}

TEST_F(Layers, AStringForASectionIsItsPreset) {
  const auto file =
      write("job.toml", "model = \"toy-model\"\ncluster = \"toy\"\nbatch.sequence_length = 64\n");
  EXPECT_EQ(load_job({file}, {}, kToyRoot).model.layers, 48);
}

TEST_F(Layers, APresetThatSetsOtherSectionsIsRefused) {
  fs::create_directories(folder_ / "models");
  write("models/greedy.toml", "[model]\nlayers = 2\n[parallel]\ntensor = 4\n");
  try {
    load_job({good_}, {"model.preset=greedy"}, folder_.string());
    FAIL() << "accepted";
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), HasSubstr("greedy.toml:4:1: parallel.tensor = 4: a preset of "
                                        "[model] sets only keys of that section"));
  }
}

TEST(SetOption, ReadsTomlValuesAndFallsBackToBareStrings) {
  const Job job = toy_job({"training.total_tokens=300e9", "training.optimizer=lamb",
                           "schedule.overlap=[\"data\"]", "model.tied=false", "name=a b # c",
                           "faults.list=[\"slow node=1 factor=1.5\"]"});
  EXPECT_DOUBLE_EQ(job.training.total_tokens, 300e9);
  EXPECT_EQ(job.training.optimizer, Optimizer::lamb);
  EXPECT_FALSE(job.schedule.overlap.tensor);
  EXPECT_FALSE(job.model.tied);
  EXPECT_EQ(job.name, "a b # c");
  ASSERT_EQ(job.faults.size(), 1U);
  EXPECT_EQ(job.faults[0].node, 1);
}

TEST(SetOption, IsRefusedWithItsTextWhenItCannotBeRead) {
  EXPECT_THAT(toy_violations({"model.hidden"}), ElementsAre(HasSubstr("--set: model.hidden: write "
                                                                      "--set key=value")));
  EXPECT_THAT(toy_violations({"=3", "model.hidden="}).size(), 2);
  EXPECT_THAT(toy_violations({"model.hiden=3"}),
              ElementsAre(HasSubstr("model.hiden = 3: unknown key; did you mean model.hidden?")));
  EXPECT_THAT(toy_violations({"base=x.toml"}), ElementsAre(HasSubstr("unknown key")));
  EXPECT_THAT(toy_violations({"model.hidden=wide"}),
              ElementsAre("--set: model.hidden = \"wide\": is a string, but this key takes an "
                          "integer"));
}

TEST(LoadJob, SaysWhatIsMissingOneLineASection) {
  try {
    load_job({kToyRoot + "/toy_node.toml"}, {}, kToyRoot);
    FAIL() << "accepted";
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.violations(),
                ElementsAre(HasSubstr("[batch]: missing sequence_length"),
                            HasSubstr("[cluster.gpu]: missing sms, memory, memory_bandwidth_gbs; "
                                      "give them, or cluster.gpu.preset"),
                            HasSubstr("[model]: missing layers, hidden, heads, vocab; give them, "
                                      "or model.preset")));
  }
}

TEST_F(Layers, AnUnreadableFileBringsNoComplaintsAboutWhatItWouldHaveSet) {
  const auto broken = write("broken.toml", "[model\n");
  try {
    load_job({broken, write("rest.toml", "[training]\nclip = -1\n")}, {}, kToyRoot);
    FAIL() << "accepted";
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.violations(),
                testing::UnorderedElementsAre(HasSubstr("broken.toml:1:7: syntax error"),
                                              HasSubstr("training.clip = -1")));
  }
}

TEST(LoadJob, WarnsOfTensorGroupsThatCrossNodes) {
  const Job job = toy_job({"parallel.tensor=16", "parallel.data=2"});
  EXPECT_THAT(job.warnings, ElementsAre("--set: parallel.tensor = 16: tensor 16 is more than the 8 "
                                        "GPUs of a node, so its collectives cross the network"));
}

TEST(LoadJob, AnswersHelpWithALineAboutEachChoice) {
  const auto violations = toy_violations({"training.recompute=help"});
  ASSERT_EQ(violations.size(), 1U);
  for (const char* line : {"none", "selective", "full"})
    EXPECT_THAT(violations[0], HasSubstr(std::string("\n  ") + line));
}

TEST(LoadJob, ReadsExpectationsUnderTheNamesOfTheReport) {
  const Job job = toy_job({"expect.mfu=[0.4, 0.5]", "expect.memory_bytes.peak=[1, 2]"});
  EXPECT_DOUBLE_EQ(job.expect.at("mfu").low, 0.4);
  EXPECT_DOUBLE_EQ(job.expect.at("memory_bytes.peak").high, 2);
}

// 48 layers of width 32,768: 12 h^2 + 13 h = 12,885,327,872 parameters a layer (SC'21 eq. 2). A
// stage has 12 of them and a table of 50,432 x 32,768, over tensor 2: 78,138,245,120. bf16 with
// zero 1 over 4 ranks takes 2 + 4 + 12/4 = 9 bytes of each: 654.9 GiB.
TEST(LoadJob, TellsNeededAndPresentMemoryOfAHopelessJob) {
  const auto violations = toy_violations({"model.hidden=32768", "model.heads=256"});
  ASSERT_EQ(violations.size(), 1U);
  EXPECT_THAT(violations[0], HasSubstr("alone need 654.9 GiB on the fullest GPU"));
  EXPECT_THAT(violations[0], HasSubstr("x 9 bytes), 80.0 GiB are there"));
}

TEST(LoadJob, AcceptsUnevenLayersWhenTheyAreListed) {
  const Job job = toy_job(
      {"model.layers=50", "parallel.layers_per_stage=[5, 5, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4]"});
  EXPECT_EQ(job.parallel.layers_per_stage.size(), 12U);
}

}  // namespace
}  // namespace trainyard
