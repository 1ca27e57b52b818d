#include "backends/common/observers/metrics_file.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/backends/common/observers/runs.h"
#include "tests/temporary_folder.h"

namespace trainyard {
namespace {

using testing::ElementsAre;
using Json = nlohmann::ordered_json;

std::vector<Json> lines_of(const std::string& path) {
  std::vector<Json> lines;
  std::istringstream text(read_file(path));
  for (std::string line; std::getline(text, line);) lines.push_back(Json::parse(line));
  return lines;
}

std::vector<std::string> events_of(const std::string& path) {
  std::vector<std::string> events;
  for (const Json& line : lines_of(path))
    events.push_back(line["event"].get<std::string>() + " " + line["step"].dump());
  return events;
}

RunFacts run_after(std::int64_t steps_done) {
  RunFacts facts = small_run();
  facts.steps_done = steps_done;
  return facts;
}

// A run of steps first … last with an evaluation and a checkpoint after step 2.
void run(const std::string& path, std::int64_t first, std::int64_t last) {
  MetricsFile file(path);
  file.begin(run_after(first - 1));
  for (std::int64_t step = first; step <= last; ++step) {
    file.step(small_step(step, 1));
    if (step != 2) continue;
    file.evaluation({.step = 2, .loss = 1, .sequences = 1, .time = {}});
    file.checkpoint({.step = 2, .path = "2", .bytes = {}, .blocked = {}, .written_in = {}});
  }
}

TEST(MetricsFile, HasAnObjectALineForEachEvent) {
  const TemporaryFolder folder;
  const std::string path = folder.path() / "metrics.jsonl";
  MetricsFile file(path);
  file.begin(small_run());
  StepRecord step = small_step(1, 4.5);
  step.loss_scale = 1024;
  step.skipped = true;
  file.step(step);
  file.evaluation({.step = 1, .loss = 4.25, .sequences = 7, .time = seconds(2)});
  file.checkpoint({.step = 1,
                   .path = "runs/1",
                   .bytes = {99},
                   .blocked = seconds(0.5),
                   .written_in = seconds(1.5)});
  EXPECT_EQ(read_file(path),
            R"({"event":"step","step":1,"loss":4.5,"grad_norm":9.0,"lr":0.001,"loss_scale":1024.0,)"
            R"("skipped":true,"time_s":0.5,"data_wait_s":0.05,"tokens":100})"
            "\n"
            R"({"event":"evaluation","step":1,"validation_loss":4.25,"sequences":7,"time_s":2.0})"
            "\n"
            R"({"event":"checkpoint","step":1,"path":"runs/1","bytes":99,"blocked_s":0.5,)"
            R"("written_in_s":1.5})"
            "\n");
}

TEST(MetricsFile, WritesNullForWhatIsNoNumber) {
  const TemporaryFolder folder;
  const std::string path = folder.path() / "metrics.jsonl";
  MetricsFile file(path);
  file.begin(small_run());
  StepRecord step = small_step(1, std::numeric_limits<double>::quiet_NaN());
  step.grad_norm = std::numeric_limits<double>::infinity();
  file.step(step);
  const Json line = lines_of(path).at(0);
  EXPECT_TRUE(line["loss"].is_null());
  EXPECT_TRUE(line["grad_norm"].is_null());
}

TEST(MetricsFile, OfAResumedRunHasEachStepOnce) {
  const TemporaryFolder folder;
  const std::string path = folder.path() / "metrics.jsonl";
  run(path, 1, 4);
  run(path, 3, 5);
  EXPECT_THAT(events_of(path), ElementsAre("step 1", "step 2", "evaluation 2", "checkpoint 2",
                                           "step 3", "step 4", "step 5"));
}

TEST(MetricsFile, OfARunFromTheStartForgetsTheOneBefore) {
  const TemporaryFolder folder;
  const std::string path = folder.path() / "metrics.jsonl";
  run(path, 1, 4);
  run(path, 1, 1);
  EXPECT_THAT(events_of(path), ElementsAre("step 1"));
}

TEST(MetricsFile, DropsALineThatAKilledRunLeftUnfinished) {
  const TemporaryFolder folder;
  const std::string path = folder.path() / "metrics.jsonl";
  run(path, 1, 3);
  const std::string whole = read_file(path);
  // Cut within the last line, and once more so that just its line end is missing.
  for (const std::size_t cut : {std::size_t{20}, std::size_t{1}}) {
    write_file(path, whole.substr(0, whole.size() - cut));
    run(path, 3, 3);
    EXPECT_EQ(read_file(path), whole);
  }
}

TEST(MetricsFile, ThatCannotBeWrittenIsFoundBeforeTheRun) {
  EXPECT_THAT(config_error_of([] { MetricsFile("/nowhere/metrics.jsonl"); }),
              testing::HasSubstr("/nowhere/metrics.jsonl: cannot be written"));
}

}  // namespace
}  // namespace trainyard
