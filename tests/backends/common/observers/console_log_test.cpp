#include "backends/common/observers/console_log.h"

#include <gmock/gmock.h>

#include "tests/backends/common/observers/runs.h"
#include "tests/temporary_folder.h"

namespace trainyard {
namespace {

using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;

// A log whose lines and bar go to files, or both to one file as on a terminal.
class Logged {
 public:
  explicit Logged(std::int64_t log_steps, bool one_terminal = false)
      : out_(folder_.path() / "out"),
        bar_(one_terminal ? out_ : (folder_.path() / "bar").string()),
        log(log_steps, ReportFile(out_, ReportFile::Start::append),
            ReportFile(bar_, ReportFile::Start::append)) {}

  // What was written since the last call.
  std::string out() { return since(read_file(out_), seen_out_); }
  std::string bar() { return since(read_file(bar_), seen_bar_); }

 private:
  static std::string since(const std::string& text, std::size_t& seen) {
    const std::string fresh = text.substr(seen);
    seen = text.size();
    return fresh;
  }

  TemporaryFolder folder_;
  std::string out_, bar_;
  std::size_t seen_out_ = 0, seen_bar_ = 0;

 public:
  ConsoleLog log;
};

TEST(ConsoleLog, IntroducesTheRun) {
  Logged logged(10);
  logged.log.begin(small_run());
  EXPECT_EQ(logged.out(), "toy: 4 ranks, 1,200 steps of 100 tokens, program 0000000000abcdef\n");
  RunFacts resumed = small_run();
  resumed.ranks = 1;
  resumed.steps_done = 1000;
  logged.log.begin(resumed);
  EXPECT_EQ(logged.out(),
            "toy: 1 rank, 1,200 steps of 100 tokens, program 0000000000abcdef, "
            "resumed after step 1,000\n");
}

// Steps of 0.5 s, 0.5 s and 1 s: 300 tokens in 2 s are 150 tokens/s; at 6 FLOPs each 900 of the
// 2,000 FLOP/s; 0.15 s of the 2 s are data wait.
TEST(ConsoleLog, AveragesOverTheStepsSinceTheLineBefore) {
  Logged logged(3);
  logged.log.begin(small_run());
  logged.out();
  logged.log.step(small_step(1, 6));
  logged.log.step(small_step(2, 5));
  EXPECT_EQ(logged.out(), "");
  StepRecord third = small_step(3, 2.5);
  third.time = seconds(1);
  third.learning_rate = 0.002;
  logged.log.step(third);
  EXPECT_EQ(logged.out(),
            "step     3/1,200  loss  4.5000  lr 2.000e-03  grad norm  9.0000        150 tokens/s"
            "  MFU 45.0 %  memory 1.50 GiB  data wait  7.5 %\n");
  for (int step = 4; step <= 6; ++step) logged.log.step(small_step(step, 1));
  EXPECT_THAT(logged.out(), HasSubstr("loss  1.0000"));
}

TEST(ConsoleLog, SaysThatThereIsNoMfuWithoutAStatedPeak) {
  Logged logged(1);
  RunFacts facts = small_run();
  facts.peak = {};
  logged.log.begin(facts);
  logged.log.step(small_step(1, 6));
  EXPECT_THAT(logged.out(), HasSubstr("MFU n/a"));
}

TEST(ConsoleLog, LeavesOutANormThatWasNotMeasured) {
  Logged logged(1);
  logged.log.begin(small_run());
  StepRecord step = small_step(1, 6);
  step.grad_norm = std::numeric_limits<double>::quiet_NaN();
  logged.log.step(step);
  EXPECT_THAT(logged.out(), Not(HasSubstr("grad norm")));
}

TEST(ConsoleLog, CountsSkippedStepsAndKeepsTheirNormsOut) {
  Logged logged(2);
  logged.log.begin(small_run());
  StepRecord skipped = small_step(1, 6);
  skipped.skipped = true;
  skipped.grad_norm = std::numeric_limits<double>::infinity();
  skipped.loss_scale = 65536;
  logged.log.step(skipped);
  StepRecord good = small_step(2, 6);
  good.loss_scale = 32768;
  logged.log.step(good);
  const std::string line = logged.out();
  EXPECT_THAT(line, HasSubstr("grad norm 12.0000"));
  EXPECT_THAT(line, EndsWith("  loss scale 32768  1 skipped\n"));
}

TEST(ConsoleLog, EndsWithTheStepsNotYetShownAndTheReason) {
  Logged logged(10);
  logged.log.begin(small_run());
  logged.log.step(small_step(1, 6));
  logged.out();
  logged.log.end({.step = 1, .failure = "rank 3 is missing", .warnings = {}});
  EXPECT_THAT(logged.out(),
              testing::MatchesRegex("step     1/1,200  loss  6.0000 .*\n"
                                    "step     1/1,200  ended early: rank 3 is missing\n"));
}

TEST(ConsoleLog, ShowsEvaluationsAndCheckpoints) {
  Logged logged(10);
  logged.log.begin(small_run());
  logged.out();
  logged.log.evaluation({.step = 20, .loss = 3.25, .sequences = 1234, .time = seconds(0.25)});
  EXPECT_EQ(logged.out(),
            "step    20/1,200  validation loss 3.2500 over 1,234 sequences, 250.000 ms\n");
  logged.log.checkpoint({.step = 20,
                         .path = "runs/20",
                         .bytes = {std::int64_t{5} << 29},
                         .blocked = seconds(0.125),
                         .written_in = seconds(2)});
  EXPECT_EQ(logged.out(),
            "step    20/1,200  checkpoint runs/20, 2.50 GiB, steps stood still for 125.000 ms, "
            "written in 2.000 s\n");
}

// 300 of 1,200 steps at 0.5 s each: 900 * 0.5 s = 450 s = 7 min 30 s are left.
TEST(ConsoleLog, DrawsABarWithTheTimeLeft) {
  Logged logged(1000);
  logged.log.begin(small_run());
  for (int step = 1; step <= 299; ++step) logged.log.step(small_step(step, 1));
  logged.bar();
  logged.log.step(small_step(300, 1));
  EXPECT_EQ(logged.bar(), "\r\033[Kstep   300/1,200 [#####...............] 25 %, 7 min 30 s left");
}

// After resuming at 1,000 the hundredth step of this run is 1,100; 100 * 0.5 s are left.
TEST(ConsoleLog, CountsTheTimeLeftFromTheStepsOfThisRun) {
  Logged logged(1000);
  RunFacts facts = small_run();
  facts.steps_done = 1000;
  logged.log.begin(facts);
  for (int step = 1001; step <= 1099; ++step) logged.log.step(small_step(step, 1));
  logged.bar();
  logged.log.step(small_step(1100, 1));
  EXPECT_THAT(logged.bar(), EndsWith("91 %, 50 s left"));
}

TEST(ConsoleLog, RedrawsTheBarTenTimesASecondAtMost) {
  Logged logged(1000);
  logged.log.begin(small_run());
  StepRecord step = small_step(1, 1);
  step.time = microseconds(1000);
  for (step.step = 1; step.step <= 100; ++step.step) logged.log.step(step);
  logged.bar();
  for (; step.step <= 200; ++step.step) logged.log.step(step);
  const std::string drawn = logged.bar();
  EXPECT_EQ(std::count(drawn.begin(), drawn.end(), '\r'), 1);
}

// What a terminal shows: \r and \033[K start the line anew.
std::string shown_on_terminal(const std::string& text) {
  std::string shown;
  for (std::size_t at = 0; at < text.size();) {
    if (text.compare(at, 4, "\r\033[K") == 0) {
      shown.erase(shown.rfind('\n') + 1);
      at += 4;
    } else {
      shown += text[at++];
    }
  }
  return shown;
}

TEST(ConsoleLog, LeavesNoPieceOfABarBetweenTheLinesOfATerminal) {
  Logged logged(2, true);
  logged.log.begin(small_run());
  for (int step = 1; step <= 5; ++step) logged.log.step(small_step(step, 1));
  logged.log.evaluation({.step = 5, .loss = 1, .sequences = 1, .time = seconds(1)});
  logged.log.step(small_step(6, 1));
  logged.log.end({.step = 6, .failure = {}, .warnings = {}});
  const std::string text = logged.out();
  EXPECT_THAT(text, HasSubstr("left"));
  const std::string shown = shown_on_terminal(text);
  EXPECT_THAT(shown, Not(HasSubstr("left")));
  // A heading, lines of steps 2, 4 and 6, an evaluation.
  EXPECT_EQ(std::count(shown.begin(), shown.end(), '\n'), 5);
  EXPECT_THAT(shown, EndsWith(" %\n"));
}

TEST(ConsoleLog, WithoutATerminalWritesLinesOnly) {
  const TemporaryFolder folder;
  const std::string path = folder.path() / "out";
  ConsoleLog log(1, ReportFile(path, ReportFile::Start::anew), std::nullopt);
  log.begin(small_run());
  log.step(small_step(1, 1));
  log.end({.step = 1, .failure = {}, .warnings = {}});
  EXPECT_THAT(read_file(path), Not(HasSubstr("\r")));
}

}  // namespace
}  // namespace trainyard
