// Odd configurations that users of other trainers and simulators reported as accepted in silence,
// crashing or refused without need. Each test names the public thread.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/core/config/toy.h"

namespace trainyard {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// The toy job without interleaving and sequence parallelism, `ranks` data ranks of one GPU stage
// each on nodes of one GPU, so that any shape can be tried.
std::vector<std::string> plain(std::int64_t layers, int pipeline, int data, int micro_batches) {
  return {"schedule.pipeline=1f1b",
          "schedule.overlap=[]",
          "parallel.virtual_stages=1",
          "parallel.sequence=false",
          "parallel.tensor=1",
          "cluster.node.gpus=1",
          fmt::format("model.layers={}", layers),
          fmt::format("parallel.pipeline={}", pipeline),
          fmt::format("parallel.data={}", data),
          fmt::format("batch.global_sequences={}", 2 * data * micro_batches)};
}

std::vector<std::string> with(std::vector<std::string> sets, std::vector<std::string> more) {
  sets.insert(sets.end(), more.begin(), more.end());
  return sets;
}

// Megatron-LM#326: 40 layers, pipeline 8, 2 layers a virtual stage lost 8 layers.
TEST(UserReports, LayersAreNeverLostToUnevenVirtualStages) {
  const auto sets =
      with(plain(40, 8, 1, 8), {"schedule.pipeline=interleaved-1f1b", "parallel.virtual_stages=2"});
  EXPECT_THAT(toy_violations(sets),
              ElementsAre(HasSubstr("layers 40 do not divide into pipeline 8 x virtual_stages 2 = "
                                    "16 chunks; nearest: layers 32 or 48, or pipeline 5 or 10, or "
                                    "give parallel.layers_per_stage")));
}

// Megatron-LM#823 (10 layers over 4) and LLMServingSim#55 (36 layers): every split that is accepted
// holds all layers, every other is refused.
TEST(UserReports, LayersAreAllThereOrTheJobIsRefused) {
  for (std::int64_t layers : {10, 32, 36})
    for (int pipeline = 1; pipeline <= layers + 1; ++pipeline) {
      const bool divides = layers % pipeline == 0;
      EXPECT_EQ(toy_violations(plain(layers, pipeline, 1, 4)).size(), divides ? 0U : 1U)
          << layers << " over " << pipeline;
    }
}

// torchtitan#775, PiPPy#1064: fewer micro-batches than stages hang; they are legal with 1F1B,
// GPipe, ZB-H1 and ZB-2p. flatflow#20, verl#1617: interleaving needs multiples, and says which.
TEST(UserReports, AnyNumberOfMicroBatchesRunsUnlessInterleaved) {
  for (const char* order : {"gpipe", "1f1b", "zb-h1", "zb-2p"})
    for (int m = 1; m <= 16; ++m)
      EXPECT_THAT(
          toy_violations(with(plain(48, 8, 1, m), {fmt::format("schedule.pipeline={}", order),
                                                   R"(schedule.overlap=["pipeline"])"})),
          IsEmpty());
  for (int m = 1; m <= 16; ++m) {
    const auto violations = toy_violations(with(
        plain(48, 8, 1, m), {"schedule.pipeline=interleaved-1f1b", "parallel.virtual_stages=2"}));
    EXPECT_EQ(violations.empty(), m % 8 == 0) << m;
    if (m < 8) {
      EXPECT_THAT(violations, ElementsAre(HasSubstr("nearest: 8 micro-batches")));
    }
  }
}

// Megatron-LM#750, #1495: a pipeline of two stages may interleave.
TEST(UserReports, TwoStagesMayInterleave) {
  EXPECT_THAT(toy_violations(with(plain(48, 2, 1, 2), {"schedule.pipeline=interleaved-1f1b",
                                                       "parallel.virtual_stages=2"})),
              IsEmpty());
}

// Megatron-LM#792: ZeRO with an odd number of data ranks.
TEST(UserReports, ZeroTakesAnyNumberOfDataRanks) {
  for (int data : {1, 2, 3, 5, 6, 7})
    for (int zero = 0; zero <= 3; ++zero)
      EXPECT_THAT(
          toy_violations(with(plain(48, 2, data, 4), {fmt::format("parallel.zero={}", zero)})),
          IsEmpty());
}

// Megatron-LM#1754, ColossalAI#6167, Megatron-Bridge#1331, vllm#440: real vocabularies that no
// power of two divides are padded, never refused, and keep their logical size.
TEST(UserReports, OddVocabulariesArePaddedAndKeepTheirSize) {
  for (std::int64_t vocab : {50257, 65535, 32000, 151936, 151669, 250682})
    for (int tensor : {1, 2, 4, 8}) {
      const Job job =
          toy_job({fmt::format("model.vocab={}", vocab), fmt::format("parallel.tensor={}", tensor),
                   "schedule.overlap=[]", "training.vocab_divisible_by=1",
                   tensor == 1 ? "parallel.sequence=false" : "parallel.sequence=true"});
      EXPECT_EQ(job.model.vocab, vocab);
      const std::int64_t padded = padded_vocab(vocab, tensor, 1);
      EXPECT_EQ(padded % tensor, 0);
      EXPECT_LT(padded - vocab, tensor);
    }
}

// sglang#31801: 128 heads over tensor 24 failed one dimension after another.
TEST(UserReports, EveryDimensionThatDoesNotFitIsToldAtOnce) {
  const auto violations =
      toy_violations({"parallel.tensor=24", "model.heads=128", "model.head_dim=64",
                      "parallel.sequence=false", "schedule.overlap=[]"});
  EXPECT_THAT(violations,
              ElementsAre(HasSubstr("heads 128"), HasSubstr("hidden 1024"), HasSubstr("ffn 4096")));
}

// transformers#24769: tensor was checked against layers instead of heads.
TEST(UserReports, TensorIsHeldAgainstHeadsAndPipelineAgainstLayers) {
  // 7 layers, 16 heads over tensor 2: legal. 8 layers, 15 heads over tensor 2: not.
  EXPECT_THAT(toy_violations(with(plain(7, 1, 1, 1), {"parallel.tensor=2"})), IsEmpty());
  EXPECT_THAT(toy_violations(with(plain(8, 1, 1, 1),
                                  {"parallel.tensor=2", "model.heads=15", "model.head_dim=64"})),
              ElementsAre(HasSubstr("heads 15 do not divide into tensor 2")));
}

// ColossalAI#6202: a mesh that is not the world brought a second error from a destructor.
TEST(UserReports, AMeshThatIsNotTheWorldIsToldOnce) {
  EXPECT_THAT(toy_violations(with(plain(8, 2, 1, 1), {"cluster.nodes=1"})),
              ElementsAre(HasSubstr("1 nodes x 1 GPUs = 1, but tensor 1 x pipeline 2 x data 1 = 2 "
                                    "ranks; nearest: 2 nodes")));
}

// astra-sim#318: 32 ranks given, 1 taken. A list of another length than the ranks is refused.
TEST(UserReports, APlacementOfTheWrongLengthIsRefused) {
  EXPECT_THAT(toy_violations({"parallel.placement=[0, 1, 2]"}),
              ElementsAre(HasSubstr("lists 3 slots for 32 ranks")));
}

}  // namespace
}  // namespace trainyard
