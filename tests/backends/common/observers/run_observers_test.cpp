#include "backends/common/observers/run_observers.h"

#include <gmock/gmock.h>

#include "backends/common/observers/console_log.h"
#include "backends/common/observers/metrics_file.h"
#include "core/error.h"
#include "tests/backends/common/observers/runs.h"

namespace trainyard {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

// Writes down what it is told, and throws at step `fails_at`.
struct Listener : RunObserver {
  explicit Listener(std::int64_t fails = -1) : fails_at(fails) {}
  void begin(const RunFacts& facts) override { told.push_back("begin " + facts.job); }
  void step(const StepRecord& record) override {
    if (record.step == fails_at) throw std::runtime_error("disk full");
    told.push_back("step " + std::to_string(record.step));
  }
  void evaluation(const EvaluationRecord& record) override {
    told.push_back("evaluation " + std::to_string(record.step));
  }
  void checkpoint(const CheckpointRecord& record) override {
    told.push_back("checkpoint " + record.path);
  }
  void end(const RunEnd& end) override { told.push_back("end " + std::to_string(end.step)); }

  std::int64_t fails_at;
  std::vector<std::string> told;
};

void tell_all(RunObserver& observer) {
  observer.begin(small_run());
  observer.step(small_step(1, 5));
  observer.step(small_step(2, 4));
  observer.evaluation({.step = 2, .loss = 4, .sequences = 1, .time = {}});
  observer.checkpoint(
      {.step = 2, .path = "somewhere", .bytes = {}, .blocked = {}, .written_in = {}});
  observer.end({.step = 2, .failure = {}, .warnings = {}});
}

TEST(RunObservers, TellEachOneEverythingInOrder) {
  std::vector<std::string> complaints;
  RunObservers all([&](const std::string& text) { complaints.push_back(text); });
  const auto first = std::make_shared<Listener>(), second = std::make_shared<Listener>();
  all.add(first);
  all.add(second);
  tell_all(all);
  EXPECT_THAT(first->told, ElementsAre("begin toy", "step 1", "step 2", "evaluation 2",
                                       "checkpoint somewhere", "end 2"));
  EXPECT_EQ(first->told, second->told);
  EXPECT_THAT(complaints, IsEmpty());
}

TEST(RunObservers, DropTheOneThatCannotWriteWithOneMessage) {
  std::vector<std::string> complaints;
  RunObservers all([&](const std::string& text) { complaints.push_back(text); });
  const auto broken = std::make_shared<Listener>(2), good = std::make_shared<Listener>();
  all.add(broken);
  all.add(good);
  tell_all(all);
  EXPECT_THAT(broken->told, ElementsAre("begin toy", "step 1"));
  EXPECT_EQ(good->told.size(), 6U);
  EXPECT_THAT(complaints, ElementsAre("disk full"));
  EXPECT_EQ(all.problems(), complaints);
}

TEST(RunObservers, OutliveAFullDisk) {
  std::vector<std::string> complaints;
  RunObservers all([&](const std::string& text) { complaints.push_back(text); });
  all.add(std::make_shared<MetricsFile>("/dev/full"));
  all.add(std::make_shared<ConsoleLog>(1, ReportFile("/dev/full", ReportFile::Start::append),
                                       std::nullopt));
  tell_all(all);
  EXPECT_THAT(complaints, ElementsAre("/dev/full: writing failed: No space left on device",
                                      "/dev/full: writing failed: No space left on device"));
}

// A mistake of our own is no trouble with a disk.
TEST(RunObservers, PassOnMistakesOfOurOwn) {
  struct Wrong : Listener {
    void step(const StepRecord&) override { check(false, "wrong"); }
  };
  RunObservers all([](const std::string&) {});
  all.add(std::make_shared<Wrong>());
  all.begin(small_run());
  EXPECT_THROW(all.step(small_step(1, 5)), InternalError);
}

}  // namespace
}  // namespace trainyard
