#pragma once
#include <optional>

#include "backends/common/observers/report_file.h"
#include "backends/common/observers/run_rate.h"
#include "backends/common/run_observer.h"

namespace trainyard {

// What a person reads while a run goes on: a heading, a line every `log_steps` steps with means
// over the steps since the line before, a line for each evaluation and checkpoint, and, where `bar`
// is given (a terminal), a progress bar that is rewritten in place.
class ConsoleLog : public RunObserver {
 public:
  ConsoleLog(std::int64_t log_steps, ReportFile out, std::optional<ReportFile> bar);

  void begin(const RunFacts& facts) override;
  void step(const StepRecord& record) override;
  void evaluation(const EvaluationRecord& record) override;
  void checkpoint(const CheckpointRecord& record) override;
  void end(const RunEnd& end) override;

 private:
  // Sums over the steps since the last line.
  struct Interval {
    RunRate rate;
    Time data_wait;
    double loss = 0, grad_norm = 0;
    std::int64_t steps = 0, measured = 0, skipped = 0;  // measured: with a good norm
    StepRecord last;
  };

  std::string step_of(std::int64_t step) const;
  std::string interval_line() const;
  void finish_interval();
  void print(const std::string& line);
  void draw_bar();
  void wipe_bar();

  std::int64_t log_steps_;
  ReportFile out_;
  std::optional<ReportFile> bar_;
  bool bar_shown_ = false;
  RunFacts facts_;
  Interval interval_;
  RunRate whole_;
  std::int64_t steps_ = 0;  // of this run
  Time drawn_at_;           // on the clock of the steps' own times
};

// Standard error where that is a terminal.
std::optional<ReportFile> progress_terminal();

}  // namespace trainyard
