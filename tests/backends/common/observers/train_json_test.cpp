#include "backends/common/observers/train_json.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "tests/backends/common/observers/runs.h"

namespace trainyard {
namespace {

using testing::IsSupersetOf;
using Json = nlohmann::ordered_json;

Json document_of_two_steps() {
  TrainJson json;
  json.begin(small_run());
  json.step(small_step(1, 5));
  json.step(small_step(2, 4));
  json.evaluation({.step = 1, .loss = 4.75, .sequences = 8, .time = seconds(1)});
  json.evaluation({.step = 2, .loss = 3.75, .sequences = 8, .time = seconds(1)});
  json.checkpoint({.step = 2, .path = "runs/2", .bytes = {10}, .blocked = {}, .written_in = {}});
  json.end({.step = 2, .failure = {}, .warnings = {"slow disk"}});
  return json.document();
}

std::vector<std::string> keys_of(const Json& object) {
  std::vector<std::string> keys;
  for (const auto& [key, value] : object.items()) keys.push_back(key);
  return keys;
}

TEST(TrainJson, HasEveryKeyOfItsSchema) {
  const Json document = document_of_two_steps();
  EXPECT_EQ(document["schema"], "trainyard-train-1");
  EXPECT_THAT(keys_of(document), IsSupersetOf({"schema", "program_hash", "steps", "final",
                                               "tokens_per_s", "mfu", "checkpoints", "warnings"}));
  EXPECT_THAT(keys_of(document["steps"][0]),
              IsSupersetOf({"step", "loss", "grad_norm", "lr", "time_s", "tokens"}));
  EXPECT_THAT(keys_of(document["final"]), IsSupersetOf({"step", "loss", "validation_loss"}));
}

// 200 tokens in 1 s; 6 FLOPs each are 1,200 of the 2,000 FLOP/s.
TEST(TrainJson, SumsUpTheRun) {
  const Json document = document_of_two_steps();
  EXPECT_EQ(document["program_hash"], "0000000000abcdef");
  EXPECT_EQ(document["steps"].size(), 2U);
  EXPECT_EQ(document["final"], (Json{{"step", 2}, {"loss", 4.0}, {"validation_loss", 3.75}}));
  EXPECT_DOUBLE_EQ(document["tokens_per_s"].get<double>(), 200);
  EXPECT_DOUBLE_EQ(document["mfu"].get<double>(), 0.6);
  EXPECT_EQ(document["checkpoints"][0]["path"], "runs/2");
  EXPECT_EQ(document["warnings"], Json::array({"slow disk"}));
  EXPECT_TRUE(document["failure"].is_null());
}

TEST(TrainJson, OfARunThatFailedAtOnceIsStillADocument) {
  TrainJson json;
  json.begin(small_run());
  json.end({.step = 0, .failure = "rank 1 is missing", .warnings = {}});
  const Json read = Json::parse(json.document().dump());
  EXPECT_EQ(read["failure"], "rank 1 is missing");
  EXPECT_TRUE(read["steps"].empty());
  EXPECT_TRUE(read["final"]["loss"].is_null());
  EXPECT_TRUE(read["tokens_per_s"].is_null());
  EXPECT_TRUE(read["mfu"].is_null());
}

TEST(TrainJson, HasNoMfuWithoutAStatedPeak) {
  TrainJson json;
  RunFacts facts = small_run();
  facts.peak = {};
  json.begin(facts);
  json.step(small_step(1, 5));
  json.end({.step = 1, .failure = {}, .warnings = {}});
  const Json read = Json::parse(json.document().dump());
  EXPECT_TRUE(read["mfu"].is_null());
  EXPECT_DOUBLE_EQ(read["tokens_per_s"].get<double>(), 200);
}

}  // namespace
}  // namespace trainyard
